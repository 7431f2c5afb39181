"""Computes how the timing of each row changed between two studies, and the verdict on it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from modescope.analysis import changes
from modescope.analysis.changes import LEAST_PROCESSES, LogChange, LogTimes
from modescope.analysis.compare import verdicts
from modescope.analysis.compare.sides import Pair
from modescope.analysis.compare.verdicts import Margins, TimingVerdict
from modescope.analysis.format import numbers
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped, value_of
from modescope.bench.records.outcomes import Status
from modescope.bench.stats.estimates import Estimate

LEAST_WITHOUT_BASELINE = 5
"""The least processes on each side of a row without a baseline.

Its latencies differ between processes five times as much as speedups do.
"""

BROKEN = "eager changed against itself"
"""Why a timing is undecided: eager changed against itself, so the machine was disturbed."""

NORMAL = 1.96  # half-widths of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Timing:
    """The timing of a row in both studies, its changes, and the verdict.

    `against_eager` is the change of the time relative to eager (None without a baseline), `latency`
    that of the latency. Changes are relative (0.02: 2 % longer), and have no interval if a study
    has fewer than LEAST_PROCESSES processes. `old` and `new` are the numbers of processes whose
    timing counts. `why` says why the verdict is undecided, or why it is None. The last three fields
    are known for undecided rows at most: `replicates` is the number of processes per study that
    would show a change of `target`.
    """

    verdict: TimingVerdict | None
    why: str | None = None
    against_eager: Estimate | None = None
    latency: Estimate | None = None
    old: int = 0  # processes
    new: int = 0
    speedup_old: float | None = None
    speedup_new: float | None = None
    latency_old_s: float | None = None
    latency_new_s: float | None = None
    detectable: float | None = None  # change that would be shown in 80 % of such comparisons
    target: float | None = None  # 2 %, or twice the margin if that is larger
    replicates: int | None = None  # a side, that show it


@dataclass(frozen=True)
class EagerChange:
    """How the time of one eager baseline changed, over all processes that measured it.

    `work` says what was measured and where. `change` is relative (0.02: 2 % longer). `old` and
    `new` count the readings: one per process of each row with this baseline.
    """

    work: str
    change: Estimate
    old: int  # readings
    new: int


BothSides = tuple[LogTimes, LogTimes]
"""The log times of the processes of the old and of the new side."""


@dataclass(frozen=True)
class _Times:
    """The log times of a pair in both studies; without a baseline only the latency is known."""

    pair: Pair
    latency: BothSides
    against: BothSides | None  # time against eager
    eager: BothSides | None  # eager's own time

    @property
    def fewest(self) -> int:
        return min(side.processes for side in self.latency)


def timings(pairs: Sequence[Pair], margins: Margins) -> tuple[list[Timing], list[EagerChange]]:
    """Returns the Timing of each pair, in order, and the change of each eager baseline."""
    times = [_times(pair) for pair in pairs]
    known = [found for found in times if isinstance(found, _Times)]
    groups = grouped((found.pair.group, found) for found in known)
    eager = {group: _eager(members) for group, members in groups.items()}
    broken = {group for group, members in groups.items() if _is_broken(members, margins)}
    rows = [
        Timing(None, found)
        if isinstance(found, str)
        else _judge(found, eager[found.pair.group], found.pair.group in broken, margins)
        for found in times
    ]
    return rows, [_eager_change(groups[group], change) for group, change in eager.items() if change]


def is_interleaved(pairs: Sequence[Pair]) -> bool:
    """Whether `versus` measured both studies in turns, block by block.

    Each timed pair must have as many old as new processes in every block; failed processes count,
    too, because they took their turn. If no pair is timed, all pairs that both studies have count.
    """
    timed = [found.pair for found in map(_times, pairs) if isinstance(found, _Times)]
    counted = timed or [pair for pair in pairs if pair.old and pair.new]
    blocks = [
        [Counter(row["versus_block"] for row in rows) for rows in (pair.old, pair.new)]
        for pair in counted
    ]
    return bool(blocks) and all(old == new and None not in old for old, new in blocks)


def against_eager(rows: Sequence[Row]) -> LogTimes | None:
    """Returns ln(time ÷ eager's time), which is −ln(speedup), of each of a row's processes `rows`.

    Only those that ended ok, were in effect and had more than a smoke budget count; None if there
    are none.
    """
    counted = [row for row in rows if _counts(row) and row["speedup"] is not None]
    return _against(counted) if counted else None


def _times(pair: Pair) -> _Times | str:
    """The _Times of a pair, or a text that says why its timing does not count."""
    old, new = ([row for row in rows if _counts(row)] for rows in (pair.old, pair.new))
    for rows, every in ((old, pair.old), (new, pair.new)):
        if not rows:
            return _why_not(every)
    latency = _log_times(old, "latency_s"), _log_times(new, "latency_s")
    if any(row["speedup"] is None for row in (*old, *new)):
        return _Times(pair, latency, None, None)
    eager = _log_times(old, "baseline_latency_s"), _log_times(new, "baseline_latency_s")
    return _Times(pair, latency, (_against(old), _against(new)), eager)


def _counts(row: Row) -> bool:
    timed = row["status"] == Status.OK and row["in_effect"] is True and row["latency_s"] is not None
    return timed and not predicates.is_smoke(row)


def _why_not(rows: Sequence[Row]) -> str:
    if not rows:
        return "on one side only"
    row = next((row for row in rows if row["status"] == Status.OK), rows[0])
    if row["status"] != Status.OK:
        return str(row["status"])
    if predicates.is_smoke(row):
        return "a smoke budget has no timing"
    if row["in_effect"] is None:
        return "not known to be in effect"
    return "no time was measured" if row["in_effect"] else "not in effect"


def _log_times(rows: Sequence[Row], name: str) -> LogTimes:
    estimates: list[Estimate] = [value_of(row, name) for row in rows]
    values = np.log([estimate.value for estimate in estimates])
    return LogTimes(values, np.array([_error(estimate) for estimate in estimates]))


def _against(rows: Sequence[Row]) -> LogTimes:
    speedup = _log_times(rows, "speedup")
    return LogTimes(-speedup.values, speedup.within)


def _error(estimate: Estimate) -> float:
    """The standard error of ln(value) within its process; 0 without an interval."""
    if estimate.low is None or estimate.high is None or estimate.low <= 0:
        return 0.0
    return math.log(estimate.high / estimate.low) / 2 / NORMAL


def _with_eager(members: Sequence[_Times]) -> list[tuple[_Times, BothSides]]:
    return [
        (member, member.eager)
        for member in members
        if member.eager and member.fewest >= LEAST_PROCESSES
    ]


def _eager(members: Sequence[_Times]) -> LogChange | None:
    """The change of the baseline that `members` share; None with too few processes."""
    readings = [eager for _, eager in _with_eager(members)]
    return changes.mean_change(*zip(*readings, strict=True)) if readings else None


def _eager_change(members: Sequence[_Times], eager: LogChange) -> EagerChange:
    rows = _with_eager(members)
    old, new = (sum(sides[place].processes for _, sides in rows) for place in (0, 1))
    return EagerChange(rows[0][0].pair.work, _estimate(eager), old, new)


def _is_broken(members: Sequence[_Times], margins: Margins) -> bool:
    controls = [
        member for member, _ in _with_eager(members) if predicates.is_control(member.pair.row)
    ]
    found = [changes.change(*member.against) for member in controls if member.against]
    return any(bool(verdicts.is_broken(change, margins)) for change in found)


def _judge(times: _Times, eager: LogChange | None, broken: bool, margins: Margins) -> Timing:
    (old, new), against = times.latency, times.against
    points = Timing(
        TimingVerdict.UNDECIDED,
        against_eager=_point(against) if against else None,
        latency=_point(times.latency),
        old=old.processes,
        new=new.processes,
        speedup_old=math.exp(-_mean(against[0])) if against else None,
        speedup_new=math.exp(-_mean(against[1])) if against else None,
        latency_old_s=math.exp(_mean(old)),
        latency_new_s=math.exp(_mean(new)),
    )
    least = LEAST_PROCESSES if against else LEAST_WITHOUT_BASELINE
    if times.fewest < least:
        baseline = "" if against else " without a baseline"
        count = numbers.counted(times.fewest, "replicate", "replicates")
        return replace(points, why=f"{count} a side, {least} are needed{baseline}")
    change, latency = _changes(times, eager)
    shown = replace(
        points, against_eager=_estimate(change) if change else None, latency=_estimate(latency)
    )
    if broken:
        return replace(shown, why=BROKEN)
    verdict = verdicts.verdict(change, eager, latency, margins)
    if verdict is not TimingVerdict.UNDECIDED:
        return replace(shown, verdict=verdict)
    decisive, margin = latency, margins.latency
    if change is not None:  # the sharper of the two rules
        decisive, margin = change, margins.against_eager
    return replace(
        shown,
        detectable=math.expm1(float(verdicts.detectable(decisive, margin))),
        target=math.expm1(verdicts.target(margin)),
        replicates=verdicts.replicates_needed(decisive, margin, shown.old, shown.new),
    )


def _changes(times: _Times, eager: LogChange | None) -> tuple[LogChange | None, LogChange]:
    """Returns two changes: of a row's time relative to eager, and of its latency.

    `eager`: the change of eager's own time, averaged over all rows that share the baseline. The
    change of the latency is the sum of `eager` and the first change. Noise of eager within a
    process lengthens one of the two and shortens the other, so the sum is more certain than its
    interval says. Without a baseline, the first change is None and the second measured directly.
    """
    if eager is None or times.against is None:
        return None, changes.change(*times.latency)
    against = changes.change(*times.against)
    return against, changes.total(against, eager)


def _mean(side: LogTimes) -> float:
    return float(side.values.mean())


def _point(sides: BothSides) -> Estimate:
    return Estimate(math.expm1(_mean(sides[1]) - _mean(sides[0])), None, None)


def _estimate(change: LogChange) -> Estimate:
    return Estimate(*(math.expm1(float(part)) for part in (change.value, change.low, change.high)))
