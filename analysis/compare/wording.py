"""Words for a comparison, which all formats share: its cells, verdicts, notes and differences."""

from __future__ import annotations

from collections import Counter

from modescope.analysis.compare.gate import ComparedRow, StudyComparison
from modescope.analysis.compare.timing import EagerChange, Timing
from modescope.analysis.format import numbers
from modescope.bench.stats.estimates import Estimate

TITLES = ("row", "old", "new", "against eager [95 %]", "latency [95 %]", "verdict")
LEGEND = (
    "old and new: speedup over eager of the same side (without a baseline: latency); the other two "
    "are changes of time, + is slower"
)
SAME = "Nothing that is recorded differs: the same code on both sides."


def change(estimate: Estimate | None) -> str:
    """Formats a change in percent, with its interval if it has one: `+4.8 % [+4.1, +5.5]`."""
    if estimate is None:
        return numbers.UNKNOWN
    if estimate.low is None or estimate.high is None:
        return f"{_signed(estimate.value, 1)} %"
    places = 2 if estimate.high - estimate.low < 0.002 else 1
    value, low, high = (
        _signed(number, places) for number in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} % [{low}, {high}]"


def _signed(share: float, places: int) -> str:
    return f"{round(share * 100, places) + 0.0:+.{places}f}"  # what rounds to zero has a plus


def cells(row: ComparedRow) -> tuple[str, ...]:
    """The cells of a row, in the order of TITLES."""
    timing = row.timing
    if timing.speedup_old is None:
        levels = map(numbers.duration, (timing.latency_old_s, timing.latency_new_s))
    else:
        levels = map(numbers.factor, (timing.speedup_old, timing.speedup_new))
    changes = map(change, (timing.against_eager, timing.latency))
    return (row.pair.name, *levels, *changes, verdict(row))


def verdict(row: ComparedRow) -> str:
    """What is found of a row: what fails first, then its timing, and changes that do not fail."""
    rest = [finding.text for finding in row.findings if finding.text not in row.failures]
    if row.timing.verdict not in row.failures and (row.timing.verdict or not row.findings):
        rest = [timing_verdict(row.timing), *rest]
    failing = [f"FAILS: {'; '.join(row.failures)}"] if row.failures else []
    return " · ".join(filter(None, [*failing, *rest])) or numbers.UNKNOWN


def timing_verdict(timing: Timing) -> str:
    """The verdict on a timing, with the change that an undecided one would have shown."""
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


def notes(comparison: StudyComparison) -> list[str]:
    """The gates with their margins, and the notes of the comparison."""
    request = comparison.request
    margins = {"speedup": request.margin, "latency": request.latency_margin}
    gates = (
        f"{name} (beyond {numbers.percent(margins[name])})" if name in margins else name
        for name in comparison.gates
    )
    return [f"Gates: {', '.join(gates)}.", *comparison.notes]


def difference_texts(comparison: StudyComparison) -> list[str]:
    """A text for each difference between the sides; SAME if there is none."""
    both = sum(1 for row in comparison.rows if row.pair.old and row.pair.new)
    return [
        f"{difference.column} {difference.old} → {difference.new}"
        + (f" ({difference.rows} of {both} rows)" if difference.rows < both else "")
        for difference in comparison.differences
    ] or [SAME]


def eager_change(eager: EagerChange) -> str:
    """How the time of eager itself changed, and the readings on each side."""
    return f"{change(eager.change)} ({eager.old} and {eager.new} readings)"


def partition(comparison: StudyComparison) -> tuple[list[ComparedRow], list[ComparedRow], str]:
    """The changed rows (failing ones first), the other rows, and a text that counts the others."""
    changed = sorted((row for row in comparison.rows if row.changed), key=lambda r: not r.failures)
    rest = [row for row in comparison.rows if not row.changed]
    kinds = Counter(row.timing.verdict or "not timed" for row in rest)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    more = "more " if changed else ""
    count = numbers.counted(len(rest), f"{more}row", f"{more}rows")
    return changed, rest, f"{count} without a change that was shown: {counts}"
