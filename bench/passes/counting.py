"""Counts the FLOPs and bytes of one eager call, operator by operator.

The call runs in plain eager with gradients recorded, whatever mode is timed: compiled code shows no
operators, a replayed graph runs none, and inference may use fused operators without a known
formula. Weights and inputs are the same, so the work is the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any
from unittest import mock

import torch
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from modescope.bench.devices.allocators import parts, storage_bytes
from modescope.bench.devices.devices import prepare_call
from modescope.bench.model import compiler, outputs, trees
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.model.subject import Built
from modescope.bench.passes.profiler import operators
from modescope.bench.records.columns.passes import WorkCounts
from modescope.bench.records.errors import one_line

aten = torch.ops.aten

LOOKUPS = frozenset(
    {aten.embedding, aten.gather, aten.index, aten.index_select, aten.take, aten.take_along_dim}
)
"""Operators that read about as much of their first tensor as they return, not all of it."""

BAGS = frozenset({aten._embedding_bag, aten._embedding_bag_forward_only})
"""Operators that read a row of their first tensor for each element of their second one."""

INSERTING = frozenset({aten.index_copy_, aten.index_put_, aten.scatter_})
"""Operators that read nothing of their first tensor and write as much of it as their last tensor
has."""

OVERWRITING = frozenset({aten.copy_, aten.fill_, aten.zero_})
"""Operators that write their first tensor and do not read it."""

TAKES_A_SHAPE = re.compile(r"\w+_like|new_\w+").fullmatch
"""Names of operators that use their tensor's shape and dtype, not its elements."""

Amounts = list[tuple[torch.Tensor, int]]  # how many bytes of each tensor


def _attention(operator: Any) -> Callable[..., int]:
    """Returns a formula for the FLOPs of an attention operator, forward or backward.

    Causal attention counts the pairs of a query and a key that it does not mask. Torch's own
    formula counts all of them, twice as many, by which the work would exceed what a kernel does.
    """
    names = [argument.name for argument in operator.default._schema.arguments]
    causal_at, query_at = names.index("is_causal"), names.index("query")
    formula = sdpa_backward_flop_count if query_at else sdpa_flop_count

    def flops(*args: Any, is_causal: bool = False, **_: Any) -> int:
        whole: int = formula(*args[: query_at + 3])
        queries, keys = (args[query_at + n][-2] for n in (0, 1))
        if not (args[causal_at] if len(args) > causal_at else is_causal) or not queries * keys:
            return whole
        short = min(queries, keys)
        pairs = short * (short + 1) // 2 + (queries - short) * keys
        return int(whole * pairs // (queries * keys))

    return flops


FORMULAS: dict[Any, Callable[..., int]] = {
    **{
        operator: _attention(operator)
        for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention",
                     "cudnn_attention")
        for name in (kind, f"{kind}_backward")
        if (operator := getattr(aten, f"_scaled_dot_product_{name}", None)) is not None
    },
    aten.mv: lambda matrix, *_, **__: 2 * math.prod(matrix),
    aten.addmv: lambda bias, matrix, *_, **__: 2 * math.prod(matrix),
    aten.dot: lambda vector, *_, **__: 2 * math.prod(vector),
}  # fmt: skip
"""FLOPs from the arguments, for operators that torch's own counter counts as 0 or otherwise.

Attention on a CPU (https://github.com/pytorch/pytorch/issues/195460) counts as on CUDA: forward has
two products, backward five: one of these again, and two for gradients of each.
"""

MATRIX_WORDS = frozenset(
    {
        *("attention", "bmm", "cdist", "conv", "convolution", "dot", "fft", "linalg", "linear"),
        *("mha", "mm", "mv", "rnn", "transformer"),
    }
)
"""Words in the names of operators that do matrix work: without a formula, FLOPs are unknown."""

SUBNORMAL_DTYPES = (torch.float32, torch.float64, torch.bfloat16)
"""The dtypes in which subnormal numbers are noted. fp16 is missing, because a CPU computes it in
fp32, where its smallest numbers are normal."""

LEAST_SUBNORMAL = 0.01
"""The least share of subnormal numbers in a tensor that is noted. A kernel that is 45 times slower
for them then takes half as long again."""

PLAIN_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler"})
"""Namespaces whose operators do matrix work only if their names say so. Operators from other
namespaces may do any work."""


class _Work(OperatorMode):
    """Adds up the bytes that operators read and write while it is active.

    It also notes operators whose FLOPs are unknown, and tensors with subnormal numbers. An operator
    reads its arguments and writes its results once each. Views, allocations and operators that only
    pass memory on move nothing. `given`: the tensors that exist before the call, for `least_bytes`.
    `formulas`: the operators whose FLOPs are counted.
    """

    def __init__(self, given: Iterable[torch.Tensor], formulas: Container[Any]) -> None:
        super().__init__()
        self.total_bytes = 0  # of all operators, one after the other
        self.unknown: set[str] = set()  # operators that may do matrix work and have no formula
        self.subnormal: dict[str, float] = {}  # shares of numbers, by place
        self._formulas = formulas
        self._sizes = {storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in given}
        self._read: dict[int, int] = {}  # the largest read of each given storage

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result, operator = func(*args, **(kwargs or {})), func.overloadpacket
        if _works(operator._qualified_op_name):
            read, written = _moved_bytes(func, args, kwargs or {}, result)
            self.total_bytes += sum(size for _, size in read + written)
            for tensor, size in read:
                storage = storage_key(tensor)
                if storage in self._sizes:
                    self._read[storage] = max(self._read.get(storage, 0), size)
        words = operator.__name__.split("_")
        plain = func.namespace in PLAIN_NAMESPACES and MATRIX_WORDS.isdisjoint(words)
        if not plain and operator not in self._formulas:
            self.unknown.add(str(operator))
        for tensor in trees.tensors(result):
            self.note_subnormal(f"results of {operator}", tensor)
        return result

    def note_subnormal(self, place: str, tensor: torch.Tensor) -> None:
        """Keeps the share of subnormal numbers in `tensor` if it is LEAST_SUBNORMAL or more.

        `place` names the tensor for the user, such as `input 0`; a place keeps its largest share.
        Only CPU tensors count: some CPU kernels take far longer for subnormal numbers.
        """
        usual = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.numel()
        if usual and tensor.dtype in SUBNORMAL_DTYPES:
            size = tensor.detach().abs()
            share = float(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).double().mean())
            if share >= LEAST_SUBNORMAL:
                self.subnormal[place] = max(share, self.subnormal.get(place, 0.0))

    def least_bytes(self, outputs: Iterable[torch.Tensor]) -> int:
        """Returns the bytes that any program must move for the call that returned `outputs`.

        These are what was read of the given tensors, and the outputs that are new. Each storage
        counts once.
        """
        written: dict[int, int] = {}
        for tensor in outputs:
            storage = storage_key(tensor)
            if storage not in self._sizes:
                written[storage] = max(written.get(storage, 0), _size(tensor))
        read = sum(min(size, self._sizes[storage]) for storage, size in self._read.items())
        return read + sum(written.values())


@lru_cache
def _works(name: str) -> bool:
    return bool(operators.find_working([name]))


def _moved_bytes(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
) -> tuple[Amounts, Amounts]:
    results, arguments = trees.tensors(result), func._schema.arguments
    named = {argument.name: argument for argument in arguments}
    by_position = zip(args, arguments, strict=False)  # the last ones have defaults
    given = [*by_position, *((value, named[name]) for name, value in kwargs.items())]
    changed = trees.tensors([value for value, argument in given if _changes(argument)])
    used = trees.tensors([value for value, argument in given if _reads(func, argument)])
    read = [(tensor, _size(tensor)) for tensor in _distinct(used)]
    written = [(tensor, _size(tensor)) for tensor in _distinct([*results, *changed])]
    if func.overloadpacket in LOOKUPS:
        read[0] = read[0][0], sum(map(_size, results))
    elif func.overloadpacket in BAGS:
        table, ids = used[:2]
        read[0] = table, ids.numel() * _size(table[:1])
    elif func.overloadpacket in INSERTING:
        read, written = read[1:], [(used[0], _size(used[-1]))]
    return read, written


def _changes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _reads(func: Any, argument: Any) -> bool:
    overwritten = _changes(argument) and func.overloadpacket in OVERWRITING
    return not (argument.is_out or overwritten or TAKES_A_SHAPE(func.overloadpacket.__name__))


def _distinct(listed: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Returns `listed` without tensors that view the same elements as another one does."""
    views = {(storage_key(t), t.storage_offset(), t.shape, t.stride(), t.dtype): t for t in listed}
    return list(views.values())


def storage_key(tensor: torch.Tensor) -> int:
    """Returns a number that is the same for all tensors that share a storage."""
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: torch.Tensor) -> int:
    """Returns the bytes of `tensor`. Elements that an expanded tensor repeats count once."""
    lengths = zip(tensor.shape, tensor.stride(), strict=True)
    elements = math.prod(length for length, stride in lengths if stride or not length)
    return min(elements * tensor.element_size(), tensor.untyped_storage().nbytes())


def count(built: Built) -> WorkCounts:
    """Counts the FLOPs and bytes of one eager call of `built`, and restores all state.

    Pointwise operators and reductions count 0 FLOPs, because memory bandwidth limits them. A
    training step also writes the weights that have gradients and the optimizer's state. What
    activation checkpointing computes a second time counts twice.
    """
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS)
    try:
        with built.keep_state():
            changed = built.state.written(built.live)
        given = [p for tensor in (*built.subject.tensors(), *changed) for p in parts(tensor)]
        work = _Work(given, set(counter.flop_registry))
        module, inputs = built.subject.module, built.subject.inputs
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            for part in parts(tensor):
                work.note_subnormal(name, part)
        for place, leaf in trees.leaves((*inputs.args, inputs.kwargs)):
            if isinstance(leaf, torch.Tensor):
                work.note_subnormal(f"input {place}", leaf)
        call = prepare_call(built.live)
        # The counter is innermost: it decomposes compositions, which inference mode does not.
        with built.keep_state(), _hide_compiler(), work, counter:
            output = call()
        least_bytes = work.least_bytes(outputs.tensors(output)) + storage_bytes(changed)
    except Exception as error:
        return WorkCounts(work_note=f"torch cannot count this call: {one_line(error, 120)}")
    names = ", ".join(sorted(work.unknown))
    return WorkCounts(
        flops=None if names else int(counter.get_total_flops()),
        least_bytes=least_bytes,
        eager_bytes=work.total_bytes,
        subnormal=json.dumps(work.subnormal) if work.subnormal else None,
        work_note=f"the FLOPs of these operators are unknown: {names}" if names else None,
    )


def _hide_compiler() -> AbstractContextManager[object]:
    """Keeps torch's FLOP counter from importing the compiler in the block (see `OperatorMode`)."""
    mode = getattr(flop_counter, "_FlopCounterMode", None)
    plain = getattr(getattr(mode, "__torch_dispatch__", None), "__wrapped__", None)
    if plain is None or compiler.is_imported():
        return nullcontext()
    return mock.patch.object(mode, "__torch_dispatch__", plain)
