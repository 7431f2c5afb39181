"""Chooses the cheapest of several modes that are equally fast within their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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

_SINCE = {
    "not checked": "its results were checked",
    "longer first call": "its first call takes less time",
    "more memory": "it needs less memory",
    "unknown first call": "the time of its first call is known",
    "unknown memory": "its memory is known",
    "as good": "the lower end of its interval is higher",
}
_SIMPLER: tuple[Mapping[object, str], ...] = (
    {False: "it captures no CUDA graph"},
    {0: "it compiles nothing"},
    {False: "it casts nothing"},
    {0: "its results keep their gradients", 1: "its results may be used in autograd"},
)
"""Why a mode is simpler, by the first place at which the two modes' `_complexity` differs, and by
what the simpler one has there."""


def since(chosen: Choice, tie: Tie) -> str:
    """Returns why `chosen` is preferred to `tie`: `its results may be used in autograd`."""
    other = tie.row.row
    lacks = {"longer first call": phrases.setup_s(other), "more memory": other["peak_bytes"]}
    if tie.reason in _SINCE:
        known = lacks.get(tie.reason, tie) is not None
        return _SINCE[tie.reason if known else f"unknown {tie.reason.partition(' ')[2]}"]
    mine, theirs = _complexity(chosen.row), _complexity(other)
    place = next(n for n, both in enumerate(zip(mine, theirs, strict=True)) if len({*both}) > 1)
    return _SIMPLER[place].get(mine[place], "it is compiled in a simpler way")
