"""The cheapest of several rows that are equally fast within their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modescope.analysis.derive import formulas
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.phrases import Row

# Peaks of equal work differ by the allocator's rounding.
PEAK_FACTOR, PEAK_BYTES = 1.05, 2**20

_COMPILE = ("none", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_GRAD = ("enabled", "no_grad", "inference_mode")

Stage = Callable[[Sequence[Row]], list[Row]]


def cheapest(rows: Sequence[Row]) -> tuple[Row, dict[str, str]]:
    """The preferred row, and for each other one (by its run_id) why it is not preferred.

    Results that were checked come first; then by first call, memory and simplicity. An unknown
    value loses to a known one.
    """
    left = list(rows)
    gone: list[tuple[Row, Callable[[Row, Row], str]]] = []
    for stay, reason in _STAGES:
        stayed = stay(left)
        gone += [(row, reason) for row in left if row not in stayed]
        left = stayed
    first = max(left, key=lambda row: (row["speedup_ci_low"], row["started_at"]))
    gone += [(row, lambda *_: "equally good and simple") for row in left if row is not first]
    return first, {row["run_id"]: reason(row, first) for row, reason in gone}


def _checked(rows: Sequence[Row]) -> list[Row]:
    """The rows whose results could be judged; all rows if there is none."""
    return [row for row in rows if not phrases.unchecked(row)] or list(rows)


def _least(name: str, factor: float, slack: float) -> Stage:
    """The rows with about the least value in column `name`; all rows if none is known."""

    def stay(rows: Sequence[Row]) -> list[Row]:
        known = [row[name] for row in rows if row[name] is not None]
        if not known:
            return list(rows)
        most = max(min(known) * factor, min(known) + slack)
        return [row for row in rows if row[name] is not None and row[name] <= most]

    return stay


def _simplest(rows: Sequence[Row]) -> list[Row]:
    """By manual graph, compile mode, autocast, grad."""

    def place(order: Sequence[str], name: str) -> int:
        return order.index(name) if name in order else len(order)

    def complexity(row: Row) -> tuple[object, ...]:
        compiled = place(_COMPILE, row["compile_mode"])
        return row["graph"], compiled, row["autocast"], place(_GRAD, row["grad"])

    least = min(map(complexity, rows))
    return [row for row in rows if complexity(row) == least]


def _known(text: str) -> str:
    return "unknown" if text == numbers.UNKNOWN else text


_STAGES: tuple[tuple[Stage, Callable[[Row, Row], str]], ...] = (
    (_checked, lambda row, first: f"{phrases.mode(first)} was checked"),
    (
        _least("first_call_s", formulas.FACTOR, formulas.SECONDS),
        lambda row, first: (
            f"first call {_known(cells.first_call(row))}, against {cells.first_call(first)}"
        ),
    ),
    (
        _least("peak_bytes", PEAK_FACTOR, PEAK_BYTES),
        lambda row, first: (
            f"peak {_known(numbers.size(row['peak_bytes']))}, "
            f"against {numbers.size(first['peak_bytes'])}"
        ),
    ),
    (_simplest, lambda row, first: f"{phrases.mode(first)} is simpler"),
)
