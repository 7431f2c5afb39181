"""The cheapest of several rows that are equally fast within their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from modescope.analysis.derive import formulas
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.phrases import Row

# Peaks of equal work differ by the allocator's rounding.
PEAK_FACTOR, PEAK_BYTES = 1.05, 2**20

_COMPILE = ("none", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_GRAD = ("enabled", "no_grad", "inference_mode")


def cheapest(rows: Sequence[Row]) -> tuple[Row, dict[str, str]]:
    """The preferred row, and for each other one (by its run_id) why it is not preferred.

    Results that were checked come first; then by first call, memory and simplicity. An unknown
    value loses to a known one.
    """
    left = list(rows)
    gone: list[tuple[Row, _Reason]] = []
    for stay, reason in _STAGES:
        stayed = stay(left)
        gone += [(row, reason) for row in left if row not in stayed]
        left = stayed
    first = max(left, key=lambda row: (row["speedup_ci_low"], row["started_at"]))
    gone += [(row, _as_good) for row in left if row is not first]
    return first, {row["run_id"]: reason(row, first) for row, reason in gone}


def _checked(rows: Sequence[Row]) -> list[Row]:
    """The rows whose results could be judged; all rows if there is none."""
    return [row for row in rows if not phrases.unchecked(row)] or list(rows)


def _within(name: str, factor: float, slack: float) -> Callable[[Sequence[Row]], list[Row]]:
    """The rows with about the least value in column `name`; all rows if none is known."""

    def stay(rows: Sequence[Row]) -> list[Row]:
        known = [row[name] for row in rows if row[name] is not None]
        if not known:
            return list(rows)
        most = max(min(known) * factor, min(known) + slack)
        return [row for row in rows if row[name] is not None and row[name] <= most]

    return stay


def _simplest(rows: Sequence[Row]) -> list[Row]:
    least = min(map(_complexity, rows))
    return [row for row in rows if _complexity(row) == least]


def _complexity(row: Row) -> tuple[Any, ...]:
    """A sorting key, simplest first: manual graph, compile mode, autocast, grad."""
    return (
        row["graph"], _place(_COMPILE, row["compile_mode"]), row["autocast"],
        _place(_GRAD, row["grad"]),
    )  # fmt: skip


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _checked_reason(row: Row, preferred: Row) -> str:
    return f"{phrases.mode(preferred)} was checked"


def _first_call_reason(row: Row, preferred: Row) -> str:
    return f"first call {_known(cells.first_call(row))}, against {cells.first_call(preferred)}"


def _memory_reason(row: Row, preferred: Row) -> str:
    peak, less = numbers.size(row["peak_bytes"]), numbers.size(preferred["peak_bytes"])
    return f"peak {_known(peak)}, against {less}"


def _known(text: str) -> str:
    return "unknown" if text == numbers.UNKNOWN else text


def _simplicity_reason(row: Row, preferred: Row) -> str:
    return f"{phrases.mode(preferred)} is simpler"


def _as_good(row: Row, preferred: Row) -> str:
    return "equally good and simple"


_Reason = Callable[[Row, Row], str]
_STAGES: tuple[tuple[Callable[[Sequence[Row]], list[Row]], _Reason], ...] = (
    (_checked, _checked_reason),
    (_within("first_call_s", formulas.FACTOR, formulas.SECONDS), _first_call_reason),
    (_within("peak_bytes", PEAK_FACTOR, PEAK_BYTES), _memory_reason),
    (_simplest, _simplicity_reason),
)
