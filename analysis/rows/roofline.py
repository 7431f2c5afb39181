"""The roofline's floor: the least time that the work of a call can take on its device.

The ceilings are the highest rates that large probes reached. Work whose data stays in a cache can
move bytes faster and take less than this floor.
"""

from __future__ import annotations

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows.intervals import ONE, difference, ends, product
from modescope.analysis.rows.select import per_row
from modescope.bench.records.columns import WorkCounts
from modescope.bench.stats.roofline import Ceilings, Floor, floor

BEATEN = "above_ceiling"
"""The flag of work that took less than its floor."""


def floor_s(rows: pd.DataFrame) -> pd.Series:
    """The least time of the counted work within the measured ceilings, in any mode."""
    return per_row(rows, (least and least.seconds for least in _floors(rows)))


def floor_bound(rows: pd.DataFrame) -> pd.Series:
    """The limit that sets this floor: `compute` (arithmetic) or `memory` (bandwidth)."""
    return per_row(rows, (least and least.bound for least in _floors(rows)), "object")


def roofline_fraction(rows: pd.DataFrame) -> pd.Series:
    """The floor as a share of the time that the work took: on CUDA the device's own time."""
    on_cuda = per_row(rows, map(phrases.on_cuda, phrases.as_rows(rows[["device"]])), "bool")
    work_s = rows["device_s"].where(on_cuda, rows["work_s"])
    fraction: pd.Series = rows["floor_s"] / work_s.where(work_s > 0)
    return fraction


def is_beaten(run: Row) -> bool:
    """Whether the work took less than its floor, even at the upper end of its interval.

    `run` has the stored counts and ceilings, and the statistics `_device`, `_latency` and
    `_dispatch_share`.
    """
    on_cuda, least = phrases.on_cuda(run), _floor(run)
    share = difference(ONE, run["_dispatch_share"])
    work = run["_device"] if on_cuda else product(run["_latency"], share)
    # 0 or less: dispatch leaves no measurable work
    return least is not None and work is not None and 0 < ends(work)[1] < least.seconds


def _floors(rows: pd.DataFrame) -> list[Floor | None]:
    needed = ["status", "least_bytes", "flops", "ceiling_bytes_per_s", "ceiling_flops_per_s"]
    return [_floor(row) for row in phrases.as_rows(rows[needed])]


def _floor(row: Row) -> Floor | None:
    least_bytes, bandwidth = row["least_bytes"], row["ceiling_bytes_per_s"]
    if row["status"] != "ok" or least_bytes is None or bandwidth is None:
        return None
    # the stored bandwidth was measured with a copy of this size
    ceilings = Ceilings(row["ceiling_flops_per_s"], ((int(least_bytes), bandwidth),))
    return floor(WorkCounts(row["flops"], int(least_bytes)), ceilings)
