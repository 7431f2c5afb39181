"""From eager down to the floor: what each further mode takes off a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from analysis import intervals, limits, numbers, words
from analysis.rows import GROUP, parts, trusted
from analysis.words import Row
from bench.stats import Estimate

# What a step may be, the first that was measured; presets alone, as an override is another mode.
STEPS = (
    ("eager",),
    ("no_grad",),
    ("inference_mode",),
    ("compile",),
    ("reduce-overhead", "compile-cuda-graph"),  # compiled and in a graph
)


@dataclass(frozen=True)
class Step:
    """A mode and how it compares with the step before it."""

    row: Row
    level: Estimate  # its latency at the pace of the baseline, seconds
    off: Estimate | None  # what it takes off the level before it; None for the first

    @property
    def told(self) -> str:
        """`less`, `more`, or `open` where the intervals of both levels overlap."""
        if self.off is None or self.off.low is None or self.off.high is None:
            return "open"
        return "less" if self.off.low > 0 else "more" if self.off.high < 0 else "open"


@dataclass(frozen=True)
class Waterfall:
    """The steps of one GROUP, two or more."""

    steps: tuple[Step, ...]
    floor_s: float | None  # of the work, whatever the mode; None where unknown or beaten
    floor_bound: str | None  # compute | memory
    beaten: bool  # by one of the group's modes, so that it is no floor


def waterfalls(section: pd.DataFrame) -> list[Waterfall]:
    """A waterfall for each GROUP of a SECTION that has two steps or more among its trusted rows."""
    found = [_waterfall(words.as_rows(group)) for group in parts(trusted(section), GROUP)]
    return [each for each in found if each is not None]


def _waterfall(rows: Sequence[Row]) -> Waterfall | None:
    """Levels are the median latency of the baseline ÷ speedups, because these are paired.

    Latencies of several processes differ by more than some of these steps. Of several rows of a
    mode, as of other options, the best stands for it.
    """
    by_mode = {row["mode"]: row for row in sorted(rows, key=lambda row: row["speedup_ci_low"])}
    chosen = [next((by_mode[mode] for mode in modes if mode in by_mode), None) for modes in STEPS]
    steps: list[Step] = []
    pace_s = median(row["baseline_latency_s"] for row in rows)
    for row in (row for row in chosen if row is not None):
        level = _at(pace_s, row)
        off = intervals.difference(steps[-1].level, level) if steps and level else None
        steps += [Step(row, level, off)] if level else []
    if len(steps) < 2:
        return None
    last = steps[-1].row
    beaten = _is_beaten(rows, steps)
    return Waterfall(
        tuple(steps), None if beaten else last["floor_s"] or None, last["floor_bound"], beaten
    )


def _is_beaten(rows: Sequence[Row], steps: Sequence[Step]) -> bool:
    """Whether any mode does its work in less than the floor, or a step is below it."""
    flagged = any(limits.BEATEN in words.flags(row) for row in rows)
    return flagged or any(step.level.value < (step.row["floor_s"] or 0.0) for step in steps)


def _at(pace_s: float, row: Row) -> Estimate | None:
    speedup = Estimate(row["speedup"], row["speedup_ci_low"], row["speedup_ci_high"])
    return intervals.quotient(Estimate(pace_s, pace_s, pace_s), speedup)


def reading(section: pd.DataFrame) -> str | None:
    """What does each step take off? None where there are no two steps."""
    found = waterfalls(section)
    return " ".join(_sentence(each, len(found) > 1) for each in found) if found else None


def _sentence(found: Waterfall, several: bool) -> str:
    first, last = found.steps[0], found.steps[-1]
    named = words.variant(first.row) if several else words.mode(first.row)
    told = [_told(step) for step in found.steps[1:] if step.told != "open"]
    unsure = [words.mode(step.row) for step in found.steps[1:] if step.told == "open"]
    clauses = [", ".join(told)] if told else []
    clauses += [f"the intervals leave open the effect of {words.listed(unsure)}"] if unsure else []
    start = numbers.duration(first.level.value)
    return f"From {named} ({start}): {'; '.join(clauses)}. {_left(found, last)}"


def _told(step: Step) -> str:
    assert step.off is not None
    takes = "takes off" if step.told == "less" else "adds"
    return f"{words.mode(step.row)} {takes} {numbers.duration(abs(step.off.value))}"


def _left(found: Waterfall, last: Step) -> str:
    if found.beaten:
        return "No floor is drawn: the work took less than the measured ceilings allow."
    if found.floor_s is None:
        why = last.row["work_note"] or "work or ceilings were not measured"
        return f"How much could still be had is unknown: {why}."
    times = last.level.value / found.floor_s
    what = {"compute": "arithmetic", "memory": "bandwidth"}[str(found.floor_bound)]
    blind = "" if last.row["flops"] else " (pointwise arithmetic is not counted)"
    floor = numbers.duration(found.floor_s)
    return f"What is left is {numbers.times(times)} the floor of {floor} that {what} sets{blind}."
