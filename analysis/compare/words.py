"""The words and numbers of a comparison, the same in every output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modescope.analysis.compare.rules.gate import Compared, Comparison
from modescope.analysis.compare.rules.timing import EagerChange, Timing
from modescope.analysis.format import numbers
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
        return numbers.UNKNOWN
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
    timing = row.timing
    if timing.speedup_old is None:
        levels = map(numbers.duration, (timing.latency_old_s, timing.latency_new_s))
    else:
        levels = map(numbers.factor, (timing.speedup_old, timing.speedup_new))
    return (*levels, change(timing.against_eager), change(timing.latency), verdict(row))


def verdict(row: Compared) -> str:
    """The verdict on the timing and the exact changes; `FAILS: ...` stands before what fails."""
    rest = [one.text for one in row.findings if one.text not in row.failures]
    if row.timing.verdict not in row.failures and (row.timing.verdict or not row.findings):
        rest = [_timing_verdict(row.timing), *rest]
    failing = [f"FAILS: {'; '.join(row.failures)}"] if row.failures else []
    return " · ".join(filter(None, [*failing, *rest])) or numbers.UNKNOWN


def _timing_verdict(timing: Timing) -> str:
    """`no worse`, `undecided (2 replicates a side, 3 are needed)`; empty without a timing."""
    if timing.verdict is None:
        return "" if timing.why in (None, "on one side only") else f"not timed: {timing.why}"
    if timing.why:
        return f"{timing.verdict} ({timing.why})"
    if timing.detectable is None:
        return timing.verdict
    shown = f"{numbers.percent(timing.detectable)} would be shown in 80 % of such comparisons"
    if timing.replicates is None:
        shown += "; more replicates do not help"
    elif timing.replicates > min(timing.old, timing.new):
        shown += f", {numbers.percent(timing.target)} with {timing.replicates} replicates"
    return f"{timing.verdict} ({shown})"


def differing(comparison: Comparison) -> list[str]:
    """`torch_version 2.12.1 → 2.13.0`, with the number of rows if it is not all of them."""
    both = sum(1 for row in comparison.rows if row.pair.old and row.pair.new)
    return [
        f"{one.column} {one.old} → {one.new}"
        + (f" ({one.rows} of {both} rows)" if one.rows < both else "")
        for one in comparison.differences
    ] or [SAME]


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


def parted(comparison: Comparison) -> tuple[list[Compared], list[Compared]]:
    """The rows that changed, those that fail first, and the others."""
    changed = [row for row in comparison.rows if row.changed]
    rest = [row for row in comparison.rows if not row.changed]
    return sorted(changed, key=lambda row: not row.failures), rest


def counts(rows: Sequence[Compared]) -> str:
    """`18 no worse, 3 undecided, 1 not timed`."""
    kinds = Counter(row.timing.verdict or "not timed" for row in rows)
    return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
