"""How near is a call to the least time that its work can take here? The roofline's floor.

The floor is as good as its ceilings, the highest rates that large probes reached. Work that lives
in a cache can move its bytes faster than they did, and then stays below its floor.
"""

from __future__ import annotations

import pandas as pd

from analysis import intervals, words
from analysis.words import Row
from bench.roofline.floor import Ceilings, Floor, Work, floor
from bench.stats import Estimate

BEATEN = "above_ceiling"
"""The flag of work that took less than its floor."""


def floor_s(rows: pd.DataFrame) -> pd.Series:
    """The least time of the counted work within the measured ceilings, whatever the mode."""
    told = [None if known is None else known.seconds for known in _floors(rows)]
    return pd.Series(told, index=rows.index, dtype="float64")


def floor_bound(rows: pd.DataFrame) -> pd.Series:
    """Is it arithmetic (compute) or bandwidth (memory) that sets this floor?"""
    told = [None if known is None else known.bound for known in _floors(rows)]
    return pd.Series(told, index=rows.index, dtype="object")


def roofline_fraction(rows: pd.DataFrame) -> pd.Series:
    """Which part of the time of the work would have done?"""
    told: pd.Series = rows["floor_s"] / rows["work_s"].where(lambda work: work > 0)
    return told


def is_beaten(run: Row) -> bool:
    """Whether the work took less than its floor, even at the upper end of its interval.

    `run` has the stored counts and ceilings, and the estimates of its clocks as `_device`,
    `_latency` and `_dispatch`.
    """
    found, work = _floor(run), _work(run)
    if found is None or work is None:
        return False
    most_s = work.value if work.high is None else work.high
    return 0 < most_s < found.seconds  # with nothing left for work, it is not known


def _work(run: Row) -> Estimate | None:
    if words.on_cuda(run):
        device: Estimate | None = run["_device"]
        return device
    return intervals.difference(run["_latency"], run["_dispatch"])


def _floors(rows: pd.DataFrame) -> list[Floor | None]:
    needed = ["status", "least_bytes", "flops", "ceiling_bytes_per_s", "ceiling_flops_per_s"]
    return [_floor(row) for row in words.as_rows(rows[needed])]


def _floor(row: Row) -> Floor | None:
    least_bytes, bandwidth = row["least_bytes"], row["ceiling_bytes_per_s"]
    if row["status"] != "ok" or least_bytes is None or bandwidth is None:
        return None
    # the stored bandwidth is that of a copy of this size already
    ceilings = Ceilings(row["ceiling_flops_per_s"], ((int(least_bytes), bandwidth),))
    return floor(Work(row["flops"], int(least_bytes)), ceilings)
