"""Compares the operators of the same call on a real and on an empty batch.

For tensors without elements, torch itself replaces some operators by others. These detours are
listed here with their cost. Any other difference is a branch or loop of the model that depends on
data or size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from modescope.bench.case.counting import storage_key
from modescope.bench.steps import trees
from modescope.bench.steps.compiler import OperatorMode

ALLOCATIONS = (torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided)
"""Operators that only allocate, which is part of dispatch."""

LARGEST_ERROR = 0.25
"""Largest error from known detours that is accepted, as a share of dispatch."""

OPERATOR_US = 2.0
"""Microseconds of dispatch per operator of a transformer block, in which the errors below were
measured."""

MOST_NAMES = 4  # of operators in a reason


@dataclass(frozen=True)
class Detour:
    """Operators that torch replaces by others if a tensor is empty.

    `real` and `empty` are patterns of the operators' names for a usual and for an empty tensor. A
    space follows each name. `error_us` is the time of the empty route minus the time of the real
    route on a few elements, where computing takes no time.
    """

    real: str
    empty: str
    error_us: float


STRIDED = "(strided)"
"""Ends the name of an `aten.clone` that makes a tensor contiguous which is not."""

VIEW = "aten._?(?:unsafe_)?view "
COPY = f"aten.clone{re.escape(STRIDED)} "
COPIED = f"{COPY}{VIEW}"
ATTENTION = r"aten._scaled_dot_product_\w*attention\w* "
BATCH_NORM = r"aten.\w*batch_norm\w* "

DETOURS = {
    # Zeros, plus the inputs' sums times 0 for gradients (github.com/pytorch/pytorch/pull/175063)
    "scaled_dot_product_attention": Detour(
        f"(?:aten.scalar_tensor aten.scalar_tensor aten.where )?{ATTENTION}(?:aten.detach )*",
        "aten.zeros aten.sum aten.sum aten.sum aten.add aten.add aten.mul aten.add ",
        4.0,
    ),
    # A copy of the input times the first weight, for the gradients (Normalization.cpp)
    "batch_norm": Detour(
        f"{BATCH_NORM}(?:aten.detach )*",
        "(?:aten.empty )*aten.clone (?:aten.select aten.mul (?:aten.detach )*)?"
        "(?:aten.select aten.add )?",
        1.5,
    ),
    # An empty tensor is always contiguous, so it is never copied to become contiguous. Any other
    # clone is the model's, and runs on an empty batch too.
    "linear on a transposed input": Detour(
        f"aten.t {COPIED}aten.mm {VIEW}aten.add_? ", f"{VIEW}aten.t aten.addmm {VIEW}", -1.8
    ),
    "reshape of a transposed tensor": Detour(COPIED, VIEW, -1.0),
    "copy of a transposed tensor": Detour(COPY, "", -1.3),
    "chunk along the batch": Detour("aten.split ", "aten.split_with_sizes ", 0.0),
}
"""The known detours. A longer pattern comes before one that is part of it."""


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
        self.names.append(_name(func, args, kwargs or {}))
        known = {storage_key(tensor) for tensor in trees.tensors((args, kwargs))}
        computes = func.overloadpacket not in ALLOCATIONS
        made = [each for each in trees.tensors(results) if each.numel() > 1]
        self.elements += sum(each.numel() for each in made)
        if computes and any(storage_key(each) not in known for each in made):
            self.working.append(str(func.overloadpacket))
        return results


def _name(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Returns the operator's name, with STRIDED added to a clone by contiguous() or reshape().

    Such a clone has a memory format among its arguments, which a call of clone() has not.
    """
    name = str(func.overloadpacket)
    if func.overloadpacket is not torch.ops.aten.clone:
        return name
    copies = kwargs.get("memory_format") is torch.contiguous_format and not args[0].is_contiguous()
    return name + STRIDED if copies else name


@dataclass(frozen=True)
class OperatorComparison:
    """Differences between the operators of an empty and of a real batch."""

    detours: Counter[str]  # names of DETOURS
    error: float  # the largest error from these, as a share of dispatch
    unknown: str | None  # the operators that differ beyond the known detours


def compare(real: Sequence[str], empty: Sequence[str]) -> OperatorComparison:
    """Compares the operators of a call on a real batch with those of the same call on an empty one.

    `real` and `empty` are operator names in call order, some of which end in `STRIDED` (`_name`).
    """
    of_real, of_empty = (
        Counter(name.replace(STRIDED, "") for name in names) for names in (real, empty)
    )
    if of_real == of_empty:
        return OperatorComparison(Counter(), 0.0, None)
    detours = _explain(*("".join(f"{name} " for name in names) for names in (real, empty)))
    if detours is None:
        return OperatorComparison(Counter(), 0.0, difference(of_real, of_empty))
    errors_us = sum(abs(DETOURS[name].error_us) * times for name, times in detours.items())
    return OperatorComparison(detours, errors_us / (OPERATOR_US * len(real)), None)


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
        for detour, each in DETOURS.items():
            here, there = (
                re.compile(each.real).match(real, at),
                re.compile(each.empty).match(empty, to),
            )
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
