"""How much work is one call? Counted on an eager call, operator by operator.

Compiled code shows no operators, a replay runs none, and inference may take a fused route that
nobody has a formula for. So count on plain eager that records gradients, with the same weights and
inputs: the work is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from bench.isolation import one_line
from bench.memory.allocators import storage_bytes
from bench.modes import Built
from bench.roofline.floor import Work
from bench.roofline.traffic import Traffic, tensors

aten = torch.ops.aten


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Both products in full, causal or not, as torch counts attention on CUDA."""
    return int(sdpa_flop_count(query, key, value))


def _attention_backward_flops(
    grad_out: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    """Five products: one of the two of forward over again, and two for the gradients of each.

    As torch counts it on CUDA (torch.utils.flop_counter.sdpa_backward_flop_count).
    """
    return int(sdpa_backward_flop_count(grad_out, query, key, value))


def _matrix_vector_flops(matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    rows, columns = matrix
    return 2 * int(rows) * int(columns)


def _biased_matrix_vector_flops(bias: Any, matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    return _matrix_vector_flops(matrix, vector)


def _dot_flops(one: Any, other: Any, *_: Any, **__: Any) -> int:
    return 2 * int(one[0])


MISSING_FORMULAS: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
    aten.mv: _matrix_vector_flops,
    aten.addmv: _biased_matrix_vector_flops,
    aten.dot: _dot_flops,
}
"""FLOPs from the arguments' shapes, for what torch's own counter takes for nothing.

Attention on a CPU: https://github.com/pytorch/pytorch/issues/195460
"""

MATRIX_WORDS = frozenset(
    {
        "attention",
        "bmm",
        "cdist",
        "conv",
        "convolution",
        "dot",
        "fft",
        "linalg",
        "linear",
        "mha",
        "mm",
        "mv",
        "rnn",
        "transformer",
    }
)
"""Words in the names of operators that do matrix work: without a formula, FLOPs are not known."""

PLAIN_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler"})
"""Operators from elsewhere can do anything."""


def count(built: Built) -> Work:
    """The FLOPs and bytes of one eager call, which is made; all is as before after it.

    Pointwise work and reductions count no FLOPs: they are bound by bytes. A step that trains writes
    the weights that have gradients and the optimizer's state, too. What activation checkpointing
    computes again counts again.
    """
    module, inputs = built.subject.module, built.subject.inputs
    counter = FlopCounterMode(display=False, custom_mapping=MISSING_FORMULAS)
    try:
        changed = _changed(built)
        traffic = Traffic([*module.parameters(), *module.buffers(), *inputs.tensors(), *changed])
        unknown = _UnknownWork(set(counter.flop_registry))
        # The counter sees a call first: it takes compositions apart, which inference mode does not.
        with built.kept(), traffic, unknown, counter:
            output = built.live()
        least_bytes = traffic.read_bytes() + traffic.written_bytes(tensors(output))
        least_bytes += storage_bytes(changed)
    except Exception as error:
        return Work(None, None, f"torch cannot count this call: {one_line(error, 120)}")
    if unknown.names:
        names = ", ".join(sorted(unknown.names))
        note = f"nothing says how many FLOPs these operators take: {names}"
        return Work(None, least_bytes, note, traffic.total_bytes)
    return Work(int(counter.get_total_flops()), least_bytes, None, traffic.total_bytes)


def _changed(built: Built) -> list[torch.Tensor]:
    """What a step of training writes that was there before it: known after a first one."""
    trainer = built.trainer
    if trainer is None:
        return []
    with built.kept():
        built.live()
    return [*(each for each in trainer.trained if each.grad is not None), *trainer.state()]


class _UnknownWork(TorchDispatchMode):
    """Notes operators that may do matrix work and have no formula."""

    def __init__(self, counted: set[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counted = counted
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.overloadpacket not in self.counted and _may_be_matrix_work(func):
            self.names.add(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


def _may_be_matrix_work(func: Any) -> bool:
    name = func.overloadpacket.__name__
    return func.namespace not in PLAIN_NAMESPACES or not MATRIX_WORDS.isdisjoint(name.split("_"))
