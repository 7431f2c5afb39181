"""Counts the FLOPs and bytes of one eager call, operator by operator.

Compiled code shows no operators, a replay runs none, and inference may use fused operators without
a known formula. So the count is made in plain eager that records gradients, with the same weights
and inputs: the work is the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from modescope.bench.case.roofline.traffic import Traffic
from modescope.bench.devices.allocators import storage_bytes
from modescope.bench.devices.devices import ready
from modescope.bench.records.columns import WorkCounts
from modescope.bench.records.errors import one_line
from modescope.bench.steps import compiler, trees
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.operator_mode import OperatorMode

aten = torch.ops.aten


MISSING_FORMULAS: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)
    ),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda grad, q, k, v, *_, **__: sdpa_backward_flop_count(grad, q, k, v)
    ),
    aten.mv: lambda matrix, *_, **__: 2 * math.prod(matrix),
    aten.addmv: lambda bias, matrix, *_, **__: 2 * math.prod(matrix),
    aten.dot: lambda one, *_, **__: 2 * math.prod(one),
}
"""FLOPs from the arguments' shapes, for operators that torch's own counter counts as 0.

Attention on a CPU (https://github.com/pytorch/pytorch/issues/195460) counts as on CUDA, causal or
not: both products in full. Backward has five: one of these again, and two for gradients of each.
"""

MATRIX_WORDS = frozenset(
    {
        *("attention", "bmm", "cdist", "conv", "convolution", "dot", "fft", "linalg", "linear"),
        *("mha", "mm", "mv", "rnn", "transformer"),
    }
)
"""Words in the names of operators that do matrix work: without a formula, FLOPs are unknown."""

SUBNORMAL_DTYPES = (torch.float32, torch.float64, torch.bfloat16)
"""Not fp16, which a CPU computes in fp32, where its least numbers are normal."""

LEAST_SUBNORMAL = 0.01
"""Of a tensor: kernels that are 45 times slower for them then take half as long again."""

PLAIN_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler"})
"""Operators from other namespaces may do any work."""


def count(built: Built) -> WorkCounts:
    """Makes one eager call and counts its FLOPs and bytes; all state is restored on return.

    Pointwise work and reductions count no FLOPs: they are bound by bytes. A training step also
    writes the weights that have gradients and the optimizer's state. What activation checkpointing
    computes again counts again.
    """
    counter = FlopCounterMode(display=False, custom_mapping=MISSING_FORMULAS)
    try:
        with built.kept():
            changed = built.state.written(built.live)
        traffic = Traffic([*built.subject.tensors(), *changed])
        unknown = _UnknownWork(set(counter.flop_registry))
        call, subnormal = ready(built.live), _Subnormal(built)
        # The counter is innermost: it decomposes compositions, which inference mode does not.
        with built.kept(), _counting_without_compiler(), subnormal, traffic, unknown, counter:
            output = call()
        least_bytes = traffic.read_bytes() + traffic.written_bytes(trees.tensors(output))
        least_bytes += storage_bytes(changed)
    except Exception as error:
        return WorkCounts(work_note=f"torch cannot count this call: {one_line(error, 120)}")
    names = ", ".join(sorted(unknown.names))
    return WorkCounts(
        flops=None if names else int(counter.get_total_flops()),
        least_bytes=least_bytes,
        eager_bytes=traffic.total_bytes,
        subnormal=json.dumps(subnormal.shares) if subnormal.shares else None,
        work_note=f"the FLOPs of these operators are unknown: {names}" if names else None,
    )


def _counting_without_compiler() -> AbstractContextManager[object]:
    """Undoes the decorator by which torch's counter would import the compiler (OperatorMode)."""
    mode = getattr(flop_counter, "_FlopCounterMode", None)
    plain = getattr(getattr(mode, "__torch_dispatch__", None), "__wrapped__", None)
    if plain is None or compiler.is_imported():
        return nullcontext()
    return mock.patch.object(mode, "__torch_dispatch__", plain)


class _Subnormal(OperatorMode):
    """Finds subnormal numbers on a CPU, on which some kernels take many times longer."""

    def __init__(self, built: Built) -> None:
        super().__init__()
        self.shares: dict[str, float] = {}  # by place
        module, inputs = built.subject.module, built.subject.inputs
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            self._note(name, tensor)
        for place, leaf in trees.leaves((*inputs.args, inputs.kwargs)):
            if isinstance(leaf, torch.Tensor):
                self._note(f"input {place}", leaf)

    def _note(self, place: str, tensor: torch.Tensor) -> None:
        usual = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.numel()
        if usual and tensor.dtype in SUBNORMAL_DTYPES:
            size = tensor.detach().abs()
            share = float(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).double().mean())
            if share >= LEAST_SUBNORMAL:
                self.shares[place] = max(share, self.shares.get(place, 0.0))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        for tensor in trees.tensors(results):
            self._note(f"results of {func.overloadpacket}", tensor)
        return results


class _UnknownWork(OperatorMode):
    """Notes operators that may do matrix work and have no formula."""

    def __init__(self, counted: set[Any]) -> None:
        super().__init__()
        self.counted = counted
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operator = func.overloadpacket
        plain = func.namespace in PLAIN_NAMESPACES
        if operator not in self.counted and not (
            plain and MATRIX_WORDS.isdisjoint(operator.__name__.split("_"))
        ):
            self.names.add(str(operator))
        return func(*args, **(kwargs or {}))
