"""The change in the timing of each row, and its verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from modescope.analysis.changes import power, verdicts, welch
from modescope.analysis.changes.verdicts import LEAST_PROCESSES, UNDECIDED, Changes, Margins
from modescope.analysis.changes.welch import Change
from modescope.analysis.compare.rules.sides import Pair
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.stats.estimates import Estimate

LEAST_WITHOUT_BASELINE = 5
"""Processes a side for raw latencies, which differ five times as much as speedups do."""

NORMAL = 1.96  # half-widths of a 95 % interval, in standard errors


@dataclass(frozen=True)
class Timing:
    """The timing of a row on both sides; changes are of time, so that more is slower.

    `why` says why the verdict is undecided, or why there is none. Estimates are relative (0.02: 2 %
    longer); they have no interval below LEAST_PROCESSES a side.
    """

    verdict: str | None
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
    """The change of the eager baseline of a work, over all processes that read it."""

    work: str
    change: Estimate
    old: int  # readings
    new: int


@dataclass(frozen=True)
class Timings:
    """The timing of each pair, in their order, and the eager baselines of their works."""

    of_pairs: list[Timing]
    eager: list[EagerChange]


@dataclass(frozen=True)
class _Times:
    """A pair whose timing counts: its processes as sides of each logarithm of time."""

    pair: Pair
    old: _Sides
    new: _Sides

    @property
    def fewest(self) -> int:
        return min(self.old.latency.processes, self.new.latency.processes)


@dataclass(frozen=True)
class _Sides:
    """Logarithms of latency; and with a baseline of time against eager, and of eager's time."""

    latency: welch.Side
    against: welch.Side | None
    eager: welch.Side | None


def timings(pairs: Sequence[Pair], margins: Margins) -> Timings:
    """The timings of all pairs."""
    times = [_times(pair) for pair in pairs]
    known = [one for one in times if isinstance(one, _Times)]
    groups = phrases.grouped((one.pair.group, one) for one in known)
    eager = {group: _eager(members) for group, members in groups.items()}
    broken = {group for group, members in groups.items() if _broken(members, margins)}
    rows = [
        Timing(None, one)
        if isinstance(one, str)
        else _judged(one, eager[one.pair.group], one.pair.group in broken, margins)
        for one in times
    ]
    return Timings(rows, [_shown(groups[group], one) for group, one in eager.items() if one])


def is_interleaved(pairs: Sequence[Pair]) -> bool:
    """Whether every timed pair was measured in the same blocks on both sides.

    Processes that failed count, too: they took their turn. Where nothing is timed, all pairs count.
    """
    timed = [one.pair for one in map(_times, pairs) if isinstance(one, _Times)]
    counted = timed or [pair for pair in pairs if pair.old and pair.new]
    blocks = [[sorted(map(_block, rows)) for rows in (pair.old, pair.new)] for pair in counted]
    return bool(blocks) and all(old == new and -1 not in old for old, new in blocks)


def against_eager(rows: Sequence[Row]) -> welch.Side | None:
    """Time against eager of the processes of a row whose timing counts; None without any."""
    counted = [row for row in rows if _counts(row) and row["_speedup"] is not None]
    return _sides(counted, True).against if counted else None


def _block(row: Row) -> int:
    """The block of versus that the process was part of; -1 for none."""
    block = row.get("versus_block")
    return -1 if block is None else int(block)


def _times(pair: Pair) -> _Times | str:
    """The times of a pair; or why it has none that count."""
    sides = [[row for row in rows if _counts(row)] for rows in (pair.old, pair.new)]
    for rows, every in zip(sides, (pair.old, pair.new), strict=True):
        if not rows:
            return _why_not(every)
    paired = all(row["_speedup"] is not None for rows in sides for row in rows)
    old, new = (_sides(rows, paired) for rows in sides)
    return _Times(pair, old, new)


def _counts(row: Row) -> bool:
    """Whether the time of a process says how fast its mode is."""
    timed = row["status"] == "ok" and row["in_effect"] is True and row["_latency"] is not None
    return timed and not phrases.is_smoke(row)


def _why_not(rows: Sequence[Row]) -> str:
    if not rows:
        return "on one side only"
    row = next((row for row in rows if row["status"] == "ok"), rows[0])
    if row["status"] != "ok":
        return str(row["status"])
    if phrases.is_smoke(row):
        return "a smoke budget has no timing"
    if row["in_effect"] is None:
        return "not known to be in effect"
    return "no time was measured" if row["in_effect"] else "not in effect"


def _sides(rows: Sequence[Row], paired: bool) -> _Sides:
    latency = _side([row["_latency"] for row in rows])
    if not paired:
        return _Sides(latency, None, None)
    speedup = _side([row["_speedup"] for row in rows])
    against = welch.Side(-speedup.values, speedup.within)
    return _Sides(latency, against, _side([row["_baseline_latency"] for row in rows]))


def _side(estimates: Sequence[Estimate]) -> welch.Side:
    return welch.Side(
        np.log([one.value for one in estimates]), np.array([_error(one) for one in estimates])
    )


def _error(one: Estimate) -> float:
    """The standard error of ln(value) within its process; 0 where there is no interval."""
    if one.low is None or one.high is None or one.low <= 0:
        return 0.0
    return math.log(one.high / one.low) / 2 / NORMAL


def _enough(members: Sequence[_Times]) -> list[_Times]:
    return [one for one in members if one.old.eager is not None and one.fewest >= LEAST_PROCESSES]


def _eager(members: Sequence[_Times]) -> Change | None:
    """The change of the baseline that the rows of a work share; None with too few processes."""
    rows = _enough(members)
    if not rows:
        return None
    before, after = ([side.eager for side in sides if side.eager] for sides in _both(rows))
    return welch.mean_change(before, after)


def _both(rows: Sequence[_Times]) -> tuple[list[_Sides], list[_Sides]]:
    return [one.old for one in rows], [one.new for one in rows]


def _shown(members: Sequence[_Times], eager: Change) -> EagerChange:
    rows = _enough(members)
    old, new = (sum(side.latency.processes for side in sides) for sides in _both(rows))
    return EagerChange(rows[0].pair.work, _estimate(eager), old, new)


def _broken(members: Sequence[_Times], margins: Margins) -> bool:
    """Whether a row of eager against itself changed."""
    controls = [one for one in _enough(members) if phrases.is_control(one.pair.row)]
    changes = [welch.change(*_against(one)) for one in controls]
    return any(bool(verdicts.is_broken(change, margins)) for change in changes)


def _against(times: _Times) -> tuple[welch.Side, welch.Side]:
    assert times.old.against is not None
    assert times.new.against is not None
    return times.old.against, times.new.against


def _judged(times: _Times, eager: Change | None, broken: bool, margins: Margins) -> Timing:
    points = _points(times)
    paired = times.old.against is not None
    least = LEAST_PROCESSES if paired else LEAST_WITHOUT_BASELINE
    if times.fewest < least:
        baseline = "" if paired else " without a baseline"
        why = (
            f"{times.fewest} replicate{'s' if times.fewest > 1 else ''} a side, {least} are needed"
        )
        return replace(points, verdict=UNDECIDED, why=f"{why}{baseline}")
    changes = _changes(times, eager)
    shown = replace(
        points,
        against_eager=None if changes.against_eager is None else _estimate(changes.against_eager),
        latency=_estimate(changes.latency),
    )
    if broken:
        return replace(shown, verdict=UNDECIDED, why="eager changed against itself")
    verdict = verdicts.verdict(changes, margins)
    if verdict != UNDECIDED:
        return replace(shown, verdict=verdict)
    return _with_power(replace(shown, verdict=verdict), changes, margins)


def _points(times: _Times) -> Timing:
    """The timing without intervals and verdict."""
    old, new = times.old, times.new
    point = Timing(
        None,
        latency=_estimate_of(_mean(new.latency) - _mean(old.latency)),
        old=old.latency.processes,
        new=new.latency.processes,
        latency_old_s=math.exp(_mean(old.latency)),
        latency_new_s=math.exp(_mean(new.latency)),
    )
    if old.against is None or new.against is None:
        return point
    return replace(
        point,
        against_eager=_estimate_of(_mean(new.against) - _mean(old.against)),
        speedup_old=math.exp(-_mean(old.against)),
        speedup_new=math.exp(-_mean(new.against)),
    )


def _changes(times: _Times, eager: Change | None) -> Changes:
    """The latency through the baseline, which all rows of a work have read, where there is one.

    Time against eager and eager's own time have what they share in eager's noise within a process,
    which lengthens the one and shortens the other: their sum is rather more certain than stated.
    """
    if eager is None:
        return Changes(None, None, welch.change(times.old.latency, times.new.latency))
    against = welch.change(*_against(times))
    return Changes(against, eager, welch.total(against, eager))


def _with_power(timing: Timing, changes: Changes, margins: Margins) -> Timing:
    """With what the sharper of the two rules could have shown."""
    one, margin = (
        (changes.latency, margins.latency)
        if changes.against_eager is None
        else (changes.against_eager, margins.against_eager)
    )
    return replace(
        timing,
        detectable=math.expm1(float(power.detectable(one, margin))),
        target=math.expm1(power.target(margin)),
        replicates=power.replicates_needed(one, margin, timing.old, timing.new),
    )


def _mean(side: welch.Side) -> float:
    return float(side.values.mean())


def _estimate(change: Change) -> Estimate:
    return Estimate(*(math.expm1(float(part)) for part in (change.value, change.low, change.high)))


def _estimate_of(change: float) -> Estimate:
    return Estimate(math.expm1(change), None, None)
