"""The words and numbers of a comparison, the same in every output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modescope.analysis.changes.verdicts import EAGER_MAYBE, UNDECIDED
from modescope.analysis.compare.rules.differences import Difference
from modescope.analysis.compare.rules.gate import Compared, Comparison
from modescope.analysis.compare.rules.timing import EagerChange, Timing
from modescope.analysis.format import numbers
from modescope.analysis.format.numbers import UNKNOWN
from modescope.bench.stats.estimates import Estimate

TITLES = ("old", "new", "against eager [95 %]", "latency [95 %]", "verdict")
"""Columns of the table of rows, after its name."""

LEGEND = (
    "old and new: speedup over eager of the same side (without a baseline: latency); the other two "
    "are changes of time, + is slower"
)

SAME = "Nothing that is recorded differs: the same code on both sides."


def change(one: Estimate | None) -> str:
    """`+4.8 % [+4.1, +5.5]`; without the brackets if there is no interval."""
    if one is None:
        return UNKNOWN
    value = one.value * 100
    if one.low is None or one.high is None:
        return f"{_signed(value, 1)} %"
    low, high = one.low * 100, one.high * 100
    places = 1 if high - low >= 0.2 else 2
    return f"{_signed(value, places)} % [{_signed(low, places)}, {_signed(high, places)}]"


def _signed(value: float, places: int) -> str:
    """`+0.3`; `0.0` without a sign."""
    rounded = round(value, places)
    return f"{rounded:+.{places}f}" if rounded else f"{0:.{places}f}"


def cells(row: Compared) -> tuple[str, ...]:
    """The cells of a row, by TITLES."""
    old, new = levels(row.timing)
    return (old, new, change(row.timing.against_eager), change(row.timing.latency), verdict(row))


def levels(timing: Timing) -> tuple[str, str]:
    """Both sides' speedup, or without a baseline their latency."""
    if timing.speedup_old is None:
        return numbers.duration(timing.latency_old_s), numbers.duration(timing.latency_new_s)
    return numbers.factor(timing.speedup_old), numbers.factor(timing.speedup_new)


def verdict(row: Compared) -> str:
    """The verdict on the timing and the exact changes; `FAILS: ...` stands before what fails."""
    timed = timing_verdict(row.timing)
    rest = [one.text for one in row.findings if one.text not in row.failures]
    if row.timing.verdict not in row.failures and (row.timing.verdict or not row.findings):
        rest = [timed, *rest]
    failing = [f"FAILS: {'; '.join(row.failures)}"] if row.failures else []
    return " · ".join(filter(None, [*failing, *rest])) or UNKNOWN


def timing_verdict(timing: Timing) -> str:
    """`no worse`, `undecided (2 replicates a side, 3 are needed)`; empty without a timing."""
    if timing.verdict is None:
        return "" if timing.why in (None, "on one side only") else f"not timed: {timing.why}"
    if timing.why:
        return f"{timing.verdict} ({timing.why})"
    if timing.detectable is None:
        return timing.verdict
    return f"{timing.verdict} ({power(timing)})"


def power(timing: Timing) -> str:
    """`3.1 % would have been shown in 80 % of such comparisons, 2 % with 9 replicates`."""
    shown = f"{numbers.percent(timing.detectable)} would be shown in 80 % of such comparisons"
    if timing.replicates is None:
        return f"{shown}; more replicates do not help"
    if timing.replicates <= min(timing.old, timing.new):
        return shown
    return f"{shown}, {numbers.percent(timing.target)} with {timing.replicates} replicates"


def difference(one: Difference, rows: int) -> str:
    """`torch_version 2.12.1 → 2.13.0`; with the number of rows if it is not all of them."""
    some = f" ({one.rows} of {rows} rows)" if one.rows < rows else ""
    return f"{one.column} {one.old} → {one.new}{some}"


def differing(comparison: Comparison) -> list[str]:
    """What differs between the sides, a text each; SAME if nothing does."""
    both = sum(1 for row in comparison.rows if row.pair.old and row.pair.new)
    return [difference(one, both) for one in comparison.differences] or [SAME]


def eager(one: EagerChange) -> str:
    """`+0.3 % [-0.4, +1.0] (50 and 50 readings)`."""
    return f"{change(one.change)} ({one.old} and {one.new} readings)"


def gates(comparison: Comparison) -> str:
    """`Gates: exact, speedup (beyond 1 %), latency (beyond 2 %).`"""
    request = comparison.request
    margins = {"speedup": request.margin, "latency": request.latency_margin}
    texts = (
        f"{name} (beyond {numbers.percent(margins[name])})" if name in margins else name
        for name in comparison.gates
    )
    return f"Gates: {', '.join(texts)}."


def changed(comparison: Comparison) -> list[Compared]:
    """The rows that readers look for: those that fail first."""
    rows = [row for row in comparison.rows if row.changed]
    return sorted(rows, key=lambda row: not row.failures)


def unchanged(comparison: Comparison) -> list[Compared]:
    """All other rows."""
    return [row for row in comparison.rows if not row.changed]


def summary(rows: Sequence[Compared]) -> str:
    """`18 no worse, 3 undecided, 1 not timed`."""
    kinds = Counter(row.timing.verdict or "not timed" for row in rows)
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())


def is_open(row: Compared) -> bool:
    """Whether the timing of a row is undecided."""
    return row.timing.verdict in (UNDECIDED, EAGER_MAYBE)
