"""The roofline's floor: the least time that the work of a call can take on its device.

The ceilings are the highest rates that large probes reached. Work whose data stays in a cache can
move bytes faster and take less than this floor.
"""

from __future__ import annotations

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.rows.select import per_row
from modescope.bench.stats.roofline import Floor
from modescope.bench.summary import least_work

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


def _floors(rows: pd.DataFrame) -> list[Floor | None]:
    needed = ["status", "least_bytes", "flops", "ceiling_bytes_per_s", "ceiling_flops_per_s"]
    return [least_work(row) for row in phrases.as_rows(rows[needed])]
