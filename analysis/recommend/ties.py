"""Chooses the cheapest of several modes that are equally fast within their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modescope.analysis.derive import formulas
from modescope.analysis.estimates import low
from modescope.analysis.format import phrases
from modescope.analysis.recommend.types import Choice, Tie
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row

# Peaks of equal work differ by the allocator's rounding.
PEAK_FACTOR, PEAK_BYTES = 1.05, 2**20

_COMPILE = ("none", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_GRAD = ("enabled", "no_grad", "inference_mode")


def cheapest(rows: Sequence[Choice]) -> tuple[Choice, tuple[Tie, ...]]:
    """Returns the preferred one of `rows`, which are equally fast, and the others as ties.

    Each tie has the reason against it. Checked results are preferred, then a short first call,
    little memory, and simplicity. An unknown value loses to a known value.
    """
    left, gone = list(rows), list[Tie]()
    for reason, stay in _STAGES:
        stayed = {row["run_id"] for row in stay([choice.row for choice in left])}
        gone += [Tie(choice, reason) for choice in left if choice.run_id not in stayed]
        left = [choice for choice in left if choice.run_id in stayed]
    first = max(left, key=lambda choice: (low(choice.speedup), choice.row["started_at"]))
    return first, (*gone, *(Tie(choice, "as good") for choice in left if choice is not first))


def _checked(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not predicates.unchecked(row)] or list(rows)


def _least(
    rows: Sequence[Row], value: Callable[[Row], float | None], factor: float, slack: float
) -> list[Row]:
    """Returns the rows whose `value` is about the least one.

    That is at most `factor` times the least value, or at most `slack` above it. Returns all rows if
    no value is known.
    """
    known = [number for row in rows if (number := value(row)) is not None]
    if not known:
        return list(rows)
    most = max(min(known) * factor, min(known) + slack)
    return [row for row in rows if (number := value(row)) is not None and number <= most]


def _simplest(rows: Sequence[Row]) -> list[Row]:
    least = min(map(_complexity, rows))
    return [row for row in rows if _complexity(row) == least]


def _complexity(row: Row) -> tuple[object, ...]:
    compiled, grad = (
        order.index(value) if value in order else len(order)
        for order, value in ((_COMPILE, row["compile_mode"]), (_GRAD, row["grad"]))
    )
    return row["graph"], compiled, row["autocast"], grad


_STAGES: tuple[tuple[str, Callable[[Sequence[Row]], list[Row]]], ...] = (
    ("not checked", _checked),
    (
        "longer first call",
        lambda rows: _least(rows, phrases.setup_s, formulas.FACTOR, formulas.SECONDS),
    ),
    (
        "more memory",
        lambda rows: _least(rows, lambda row: row["peak_bytes"], PEAK_FACTOR, PEAK_BYTES),
    ),
    ("less simple", _simplest),
)
"""Stages of the choice: why a row drops out, and a function that returns the rows that stay."""
