"""How much work is one call? Counted on an eager call, operator by operator.

Compiled code shows no operators, a replay runs none, and inference may take a fused route that
nobody has a formula for. So count on plain eager that records gradients, with the same weights and
inputs: the work is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from bench.devices import Step
from bench.isolation import one_line
from bench.roofline.floor import Work
from bench.subject import Subject, state_kept

aten = torch.ops.aten


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Both products in full, causal or not, as torch counts attention on CUDA."""
    return int(sdpa_flop_count(query, key, value))


def _matrix_vector_flops(matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    rows, columns = matrix
    return 2 * int(rows) * int(columns)


def _biased_matrix_vector_flops(bias: Any, matrix: Any, vector: Any, *_: Any, **__: Any) -> int:
    return _matrix_vector_flops(matrix, vector)


def _dot_flops(one: Any, other: Any, *_: Any, **__: Any) -> int:
    return 2 * int(one[0])


MISSING_FORMULAS: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
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

LOOKUPS = frozenset(
    {aten.embedding, aten.gather, aten.index, aten.index_select, aten.take, aten.take_along_dim}
)
"""Read from their first tensor about as much as they return, not all of it."""


def count(step: Step, subject: Subject) -> Work:
    """The FLOPs and least bytes of one eager call, which is made; buffers are as before after it.

    Pointwise work and reductions count no FLOPs: they are bound by bytes.
    """
    counter = FlopCounterMode(display=False, custom_mapping=MISSING_FORMULAS)
    try:
        module = subject.module
        known = [*module.parameters(), *module.buffers(), *subject.inputs.tensors()]
        traffic = _Traffic(known, set(counter.flop_registry))
        with state_kept(module), traffic, counter:
            output = step()
        least_bytes = traffic.read_bytes() + traffic.written_bytes(_tensors(output))
    except Exception as error:
        return Work(None, None, f"torch cannot count this call: {one_line(error, 120)}")
    if traffic.unknown:
        names = ", ".join(sorted(traffic.unknown))
        return Work(None, least_bytes, f"nothing says how many FLOPs these operators take: {names}")
    return Work(int(counter.get_total_flops()), least_bytes)


class _Traffic(TorchDispatchMode):
    """Notes what operators read of the given tensors, and operators of unknown work."""

    def __init__(self, known: Iterable[torch.Tensor], counted: set[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counted = counted
        self.unknown: set[str] = set()
        self._sizes = {_storage(tensor): tensor.untyped_storage().nbytes() for tensor in known}
        self._read: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self._note_reads(func.overloadpacket, _tensors((args, kwargs)), _tensors(result))
        if func.overloadpacket not in self.counted and _may_be_matrix_work(func):
            self.unknown.add(str(func.overloadpacket))
        return result

    def _note_reads(
        self, operator: Any, arguments: list[torch.Tensor], results: list[torch.Tensor]
    ) -> None:
        """An operator reads its arguments in full, at least once; several may read the same."""
        for position, tensor in enumerate(arguments):
            storage = _storage(tensor)
            if storage in self._sizes:
                looked_up = operator in LOOKUPS and position == 0
                size = sum(map(_size, results)) if looked_up else _size(tensor)
                self._read[storage] = max(self._read.get(storage, 0), size)

    def read_bytes(self) -> int:
        """What was read of the given tensors, at least: each storage once."""
        return sum(min(size, self._sizes[storage]) for storage, size in self._read.items())

    def written_bytes(self, outputs: Iterable[torch.Tensor]) -> int:
        """What had to be written for `outputs`, at least: each storage once, none of the given."""
        new = [tensor for tensor in outputs if _storage(tensor) not in self._sizes]
        sizes = {_storage(tensor): 0 for tensor in new}
        for tensor in new:
            sizes[_storage(tensor)] = max(sizes[_storage(tensor)], _size(tensor))
        return sum(sizes.values())


def _may_be_matrix_work(func: Any) -> bool:
    name = func.overloadpacket.__name__
    return func.namespace not in PLAIN_NAMESPACES or not MATRIX_WORDS.isdisjoint(name.split("_"))


def _tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: torch.Tensor) -> int:
    """Bytes of the elements; those that an expanded tensor repeats count once."""
    lengths = zip(tensor.shape, tensor.stride(), strict=True)
    elements = math.prod(length for length, stride in lengths if stride or not length)
    return min(elements * tensor.element_size(), tensor.untyped_storage().nbytes())
