"""Counts the bytes that the operators of an eager call read and write."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch
from torch.utils import _pytree as pytree

from modescope.bench.case.profiler import operators
from modescope.bench.steps.operator_mode import OperatorMode

aten = torch.ops.aten

LOOKUPS = frozenset(
    {aten.embedding, aten.gather, aten.index, aten.index_select, aten.take, aten.take_along_dim}
)
"""These read about as much of their first tensor as they return, not all of it."""

BAGS = frozenset({aten._embedding_bag, aten._embedding_bag_forward_only})
"""These read a row of their first tensor for each element of their second one."""

INSERTING = frozenset({aten.index_copy_, aten.index_put_, aten.scatter_})
"""These write about as much of their first tensor as the last one has, and read none of it."""

OVERWRITING = frozenset({aten.copy_, aten.fill_, aten.zero_})
"""These write their first tensor and do not read it."""

TAKES_A_SHAPE = re.compile(r"\w+_like|new_\w+").fullmatch
"""Names of operators that use their tensor's shape and dtype, not its elements."""

Amounts = list[tuple[torch.Tensor, int]]  # how many bytes of each tensor


class Traffic(OperatorMode):
    """Counts all bytes that operators read and write, and those of given tensors separately.

    An operator reads its arguments and writes its results, each once. Views move nothing; neither
    do operators that only allocate or pass memory on.
    """

    def __init__(self, given: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.total_bytes = 0  # of all operators, one after the other
        self._sizes = {storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in given}
        self._read: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if _works(func.overloadpacket._qualified_op_name):
            read, written = _moved(func, args, kwargs or {}, result)
            self.total_bytes += sum(size for _, size in read + written)
            self._note(read)
        return result

    def _note(self, read: Amounts) -> None:
        """Keeps the largest read of each given storage, as several operators may read the same."""
        for tensor, size in read:
            storage = storage_key(tensor)
            if storage in self._sizes:
                self._read[storage] = max(self._read.get(storage, 0), size)

    def read_bytes(self) -> int:
        """The least bytes read of the given tensors: each storage once."""
        return sum(min(size, self._sizes[storage]) for storage, size in self._read.items())

    def written_bytes(self, outputs: Iterable[torch.Tensor]) -> int:
        """The least bytes written for `outputs`: each storage once, without the given ones."""
        new = [tensor for tensor in outputs if storage_key(tensor) not in self._sizes]
        sizes: dict[int, int] = {}
        for tensor in new:
            sizes[storage_key(tensor)] = max(sizes.get(storage_key(tensor), 0), _size(tensor))
        return sum(sizes.values())


def tensors(tree: object) -> list[torch.Tensor]:
    """All tensors in a nest of tuples, lists and mappings."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@lru_cache
def _works(name: str) -> bool:
    return bool(operators.working([name]))


def _moved(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: object
) -> tuple[Amounts, Amounts]:
    """The bytes that one operator read and wrote; its schema marks what it changes in place."""
    results, arguments = tensors(result), func._schema.arguments
    named = {argument.name: argument for argument in arguments}
    by_position = zip(args, arguments, strict=False)  # the last ones have defaults
    given = [*by_position, *((value, named[name]) for name, value in kwargs.items())]
    changed = tensors([value for value, argument in given if _changes(argument)])
    used = tensors([value for value, argument in given if _reads(func, argument)])
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
    """In order; views of the same elements count once, even if they are different objects."""
    views = {(storage_key(t), t.storage_offset(), t.shape, t.stride(), t.dtype): t for t in listed}
    return list(views.values())


def storage_key(tensor: torch.Tensor) -> int:
    """The same number for tensors that share a storage, as views of one tensor do."""
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: torch.Tensor) -> int:
    """Bytes of the elements; those that an expanded tensor repeats count once."""
    lengths = zip(tensor.shape, tensor.stride(), strict=True)
    elements = math.prod(length for length, stride in lengths if stride or not length)
    return min(elements * tensor.element_size(), tensor.untyped_storage().nbytes())
