"""Compares the operators of the same call on a real and on an empty batch.

For tensors without elements, torch itself replaces some operators by others. The detours that
common layers take are listed here. Any other difference may be a branch or loop of the model that
depends on data or size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from modescope.bench.model import trees
from modescope.bench.model.compiler import OperatorMode
from modescope.bench.passes.counting import storage_key

ALLOCATIONS = (torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided)
"""Operators that only allocate, which is part of dispatch."""

MOST_DETOURS = 1 / 3
"""Largest share of a call's operators that may take detours: that of batch norm among convolutions
and activations."""

MOST_NAMES = 4  # of operators in a reason

DETOURS = {
    # Zeros, plus the inputs' sums times 0 for gradients (github.com/pytorch/pytorch/pull/175063)
    "scaled_dot_product_attention": (
        r"(?:aten.scalar_tensor aten.scalar_tensor aten.where )?"
        r"aten._scaled_dot_product_\w*attention\w* (?:aten.detach )*",
        r"aten.zeros aten.sum aten.sum aten.sum aten.add aten.add aten.mul aten.add ",
    ),
    # A copy of the input times the first weight, for the gradients (Normalization.cpp)
    "batch_norm": (
        r"aten.\w*batch_norm\w* (?:aten.detach )*",
        r"(?:aten.empty )*aten.clone (?:aten.select aten.mul (?:aten.detach )*)?"
        r"(?:aten.select aten.add )?",
    ),
    # An empty tensor is always contiguous, so it is never copied to become contiguous.
    "reshape of a transposed tensor": (
        r"aten.clone aten._unsafe_view ",
        r"aten.(?:_unsafe_)?view ",
    ),
}
"""Operators that torch replaces by others if a tensor is empty: patterns of their names for a usual
and for an empty tensor, in which a space follows each name. These are the ones that the models of
`models/` take; a model that takes others has no dispatch."""


class Operators(OperatorMode):
    """Records the names of all operators that are called, and of the operators that do work.

    An operator does work if it computes a tensor of more than one element.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.working: list[str] = []
        self.elements = 0  # of all results

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        results = func(*args, **(kwargs or {}))
        self.names.append(str(func.overloadpacket))
        known = {storage_key(tensor) for tensor in trees.tensors((args, kwargs))}
        computes = func.overloadpacket not in ALLOCATIONS
        made = [tensor for tensor in trees.tensors(results) if tensor.numel() > 1]
        self.elements += sum(tensor.numel() for tensor in made)
        if computes and any(storage_key(tensor) not in known for tensor in made):
            self.working.append(str(func.overloadpacket))
        return results


@dataclass(frozen=True)
class OperatorComparison:
    """Differences between the operators of an empty and of a real batch."""

    detours: Counter[str]  # names of DETOURS
    share: float  # of the real call's operators that take these
    unknown: str | None  # the operators that differ beyond the detours


def compare(real: Sequence[str], empty: Sequence[str]) -> OperatorComparison:
    """Compares the operators of a call on a real batch with those of the same call on an empty one.

    `real` and `empty` are operator names in call order.
    """
    if Counter(real) == Counter(empty):
        return OperatorComparison(Counter(), 0.0, None)
    detours = _explain(*("".join(f"{name} " for name in names) for names in (real, empty)))
    if detours is None:
        return OperatorComparison(Counter(), 0.0, difference(Counter(real), Counter(empty)))
    return OperatorComparison(detours, detours.total() / len(real), None)


def _explain(real: str, empty: str) -> Counter[str] | None:
    """Counts how often each of DETOURS is taken. None if some difference is no detour.

    `real` and `empty` are the names of all operators in call order, each followed by a space.
    """
    taken: Counter[str] = Counter()
    at, to = 0, 0
    while at < len(real) or to < len(empty):
        name = real[at : real.find(" ", at) + 1]
        if name and empty.startswith(name, to):
            at, to = at + len(name), to + len(name)
            continue
        for detour, (usual, other) in DETOURS.items():
            here, there = re.compile(usual).match(real, at), re.compile(other).match(empty, to)
            if here and there:
                taken[detour] += 1
                at, to = here.end(), there.end()
                break
        else:
            return None
    return taken


def difference(real: Counter[str], empty: Counter[str]) -> str:
    """Names the operators that `empty` lacks or has in addition, such as `without aten.mm`."""
    parts = (("without", real - empty), ("with", empty - real))
    return ", ".join(f"{word} {_names(names)}" for word, names in parts if names)


def _names(names: Counter[str]) -> str:
    most = names.most_common(MOST_NAMES)
    listed = [f"{times} × {name}" if times > 1 else name for name, times in most]
    rest = len(names) - len(most)
    return " and ".join([", ".join(listed), *([f"{rest} other operators"] if rest else [])])
