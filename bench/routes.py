"""Compares the operators of the same call on a real and on an empty batch.

torch itself takes another route where a tensor has no elements. Those routes are listed here with
their cost. Any other difference is the model's: a branch or a loop that depends on data or size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST_ERROR = 0.25
"""Share of dispatch by which known detours may falsify it."""

OPERATOR_US = 2.0
"""Dispatch of an operator of a transformer block, where the errors below were measured."""

MOST_NAMES = 4  # of operators in a reason


@dataclass(frozen=True)
class Detour:
    """Operators that torch runs on an empty tensor in place of those on any other.

    Both are patterns of names, each followed by a space. `error_us` is what the empty route takes
    more (or less) than the other one on a tensor of a few elements, whose computation is no time.
    """

    real: re.Pattern[str]
    empty: re.Pattern[str]
    error_us: float


def _detour(real: str, empty: str, error_us: float) -> Detour:
    return Detour(re.compile(real), re.compile(empty), error_us)


STRIDED = "(strided)"
"""Ends the name of an `aten.clone` that makes a tensor contiguous, because it is not."""

VIEW = "aten._?(?:unsafe_)?view "
COPY = f"aten.clone{re.escape(STRIDED)} "
COPIED = f"{COPY}{VIEW}"
ATTENTION = r"aten._scaled_dot_product_\w*attention\w* "
BATCH_NORM = r"aten.\w*batch_norm\w* "

DETOURS = {
    # Zeros, and the inputs' sums times 0 for the gradients (github.com/pytorch/pytorch/pull/175063)
    "scaled_dot_product_attention": _detour(
        f"(?:aten.scalar_tensor aten.scalar_tensor aten.where )?{ATTENTION}(?:aten.detach )*",
        "aten.zeros aten.sum aten.sum aten.sum aten.add aten.add aten.mul aten.add ",
        4.0,
    ),
    # A copy of the input times the first weight, for the gradients (Normalization.cpp)
    "batch_norm": _detour(
        f"{BATCH_NORM}(?:aten.detach )*",
        "(?:aten.empty )*aten.clone (?:aten.select aten.mul (?:aten.detach )*)?"
        "(?:aten.select aten.add )?",
        1.5,
    ),
    # Without elements every tensor is contiguous, so nothing is copied to make it so. Any other
    # clone is the model's, and runs on an empty batch too.
    "linear on a transposed input": _detour(
        f"aten.t {COPIED}aten.mm {VIEW}aten.add_? ", f"{VIEW}aten.t aten.addmm {VIEW}", -1.8
    ),
    "reshape of a transposed tensor": _detour(COPIED, VIEW, -1.0),
    "copy of a transposed tensor": _detour(COPY, "", -1.3),
    "chunk along the batch": _detour("aten.split ", "aten.split_with_sizes ", 0.0),
}
"""In this order: a longer pattern before one that is its part."""


@dataclass(frozen=True)
class Comparison:
    """What an empty batch does otherwise than the real one."""

    detours: Counter[str]  # names of DETOURS
    error: float  # share of dispatch by which these falsify it, at most
    unknown: str | None  # the operators that differ, where they do so beyond the known detours


def compare(real: Sequence[str], empty: Sequence[str]) -> Comparison:
    """Names of operators as they were called, on a real and on an empty batch.

    Those that copy a tensor to make it contiguous end in STRIDED.
    """
    of_real, of_empty = Counter(map(_plain, real)), Counter(map(_plain, empty))
    if of_real == of_empty:
        return Comparison(Counter(), 0.0, None)
    detours = _known(_text(real), _text(empty))
    if detours is None:
        return Comparison(Counter(), 0.0, _difference(of_real, of_empty))
    errors_us = sum(abs(DETOURS[name].error_us) * times for name, times in detours.items())
    return Comparison(detours, errors_us / (OPERATOR_US * len(real)), None)


def _plain(name: str) -> str:
    return name.replace(STRIDED, "")


def _text(names: Sequence[str]) -> str:
    return "".join(f"{name} " for name in names)


def _known(real: str, empty: str) -> Counter[str] | None:
    """The detours that lead from one to the other; None where something else differs."""
    taken: Counter[str] = Counter()
    at, to = 0, 0
    while at < len(real) or to < len(empty):
        name = real[at : real.find(" ", at) + 1]
        if name and empty.startswith(name, to):
            at, to = at + len(name), to + len(name)
            continue
        for detour, each in DETOURS.items():
            here, there = each.real.match(real, at), each.empty.match(empty, to)
            if here and there:
                taken[detour] += 1
                at, to = here.end(), there.end()
                break
        else:
            return None
    return taken


def _difference(real: Counter[str], empty: Counter[str]) -> str:
    parts = (("without", real - empty), ("with", empty - real))
    return ", ".join(f"{word} {_names(names)}" for word, names in parts if names)


def _names(names: Counter[str]) -> str:
    most = names.most_common(MOST_NAMES)
    listed = [f"{times} × {name}" if times > 1 else name for name, times in most]
    rest = len(names) - len(most)
    return " and ".join([", ".join(listed), *([f"{rest} other operators"] if rest else [])])
