"""The floor of a call's work: the least time that it can take on its device.

The ceilings of this roofline are the highest rates that large probes reached. Work whose data stays
in a cache can move bytes faster and take less than this floor (flag `above_ceiling`).
"""

from __future__ import annotations

import pandas as pd

from modescope.analysis.derive.select import per_row
from modescope.analysis.format import phrases
from modescope.bench.stats.roofline import Floor
from modescope.bench.summary import least_work


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
