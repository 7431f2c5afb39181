"""The floor of a call's work, and the way there from eager: what each further mode saves.

The floor is the roofline's: the least time that the work can take on its device. The ceilings are
the highest rates that large probes reached. Work whose data stays in a cache can move bytes faster
and take less than this floor (flag `above_ceiling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from modescope.analysis.derive.flags import BEATEN
from modescope.analysis.derive.select import GROUP, parts, per_row, trusted
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.bench.stats import intervals
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.roofline import Floor
from modescope.bench.summary import least_work

# The steps: of each, the first measured preset is used. Overridden presets are other modes.
STEPS = (
    ("eager",),
    ("no_grad",),
    ("inference_mode",),
    ("compile",),
    ("reduce-overhead", "compile-cuda-graph"),  # compiled and in a graph
)


@dataclass(frozen=True)
class Stage:
    """A mode, and its difference from the step before."""

    row: Row
    level: Estimate  # its latency relative to the common baseline, seconds
    off: Estimate | None  # seconds saved against the step before; None for the first

    @property
    def change(self) -> str:
        """`less`, `more`, or `open` if the intervals of both levels overlap."""
        if self.off is None or self.off.low is None or self.off.high is None:
            return "open"
        return "less" if self.off.low > 0 else "more" if self.off.high < 0 else "open"


@dataclass(frozen=True)
class Waterfall:
    """The steps of one GROUP, two or more."""

    steps: tuple[Stage, ...]
    floor_s: float | None  # of the work in any mode; None where unknown or invalid
    floor_bound: str | None  # compute | memory
    beaten: bool  # whether a mode of the group is below the floor, which is then invalid


def waterfalls(section: pd.DataFrame) -> list[Waterfall]:
    """A waterfall for each GROUP of a SECTION with at least two steps among its trusted rows."""
    groups = parts(trusted(section), GROUP)
    return [fall for group in groups if (fall := _waterfall(phrases.as_rows(group))) is not None]


def _waterfall(rows: Sequence[Row]) -> Waterfall | None:
    """The waterfall of a GROUP; None for fewer than two steps.

    Levels are the median baseline latency ÷ the speedup, which is paired: latencies differ between
    processes by more than some steps. Of several rows of a mode the best is used.
    """
    by_mode = {row["mode"]: row for row in sorted(rows, key=lambda row: row["speedup_ci_low"])}
    chosen = [next((by_mode[mode] for mode in modes if mode in by_mode), None) for modes in STEPS]
    steps: list[Stage] = []
    baseline_s = median(row["baseline_latency_s"] for row in rows)
    baseline = Estimate(baseline_s, baseline_s, baseline_s)
    for row in (row for row in chosen if row is not None):
        level = intervals.quotient(baseline, intervals.of_columns(row, "speedup"))
        off = intervals.difference(steps[-1].level, level) if steps and level else None
        steps += [Stage(row, level, off)] if level else []
    if len(steps) < 2:
        return None
    last = steps[-1].row
    beaten = _is_beaten(rows, steps)
    return Waterfall(
        tuple(steps), None if beaten else last["floor_s"] or None, last["floor_bound"], beaten
    )


def _is_beaten(rows: Sequence[Row], steps: Sequence[Stage]) -> bool:
    """Whether the work of any mode takes less than the floor, or a step is below it."""
    flagged = any(BEATEN in phrases.flags(row) for row in rows)
    return flagged or any(step.level.value < (step.row["floor_s"] or 0.0) for step in steps)


def floor_s(rows: pd.DataFrame) -> pd.Series:
    """The least time of the counted work within the measured ceilings, in any mode."""
    return per_row(rows, (least and least.seconds for least in _floors(rows)))


def floor_bound(rows: pd.DataFrame) -> pd.Series:
    """The limit that sets this floor: `compute` (arithmetic) or `memory` (bandwidth)."""
    return per_row(rows, (least and least.bound for least in _floors(rows)), "object")


def roofline_fraction(rows: pd.DataFrame) -> pd.Series:
    """The floor as a share of the time that the work took: on CUDA the device's own time."""
    work_s = rows["device_s"].where(rows["_on_cuda"], rows["work_s"])
    fraction: pd.Series = rows["floor_s"] / work_s.where(work_s > 0)
    return fraction


def _floors(rows: pd.DataFrame) -> list[Floor | None]:
    needed = ["status", "least_bytes", "flops", "ceiling_bytes_per_s", "ceiling_flops_per_s"]
    return [least_work(row) for row in phrases.as_rows(rows[needed])]
