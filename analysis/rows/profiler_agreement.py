"""The split of a call by its clocks beside a profile of the same call (`bench.summary`)."""

from __future__ import annotations

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows.select import per_row
from modescope.bench.summary import MOST_DISPATCH

# Flags of an unreliable profile (bench.case.profiler.capture).
DOUBTS = {
    "profile_empty",
    "profile_busy_exceeds_span",
    "profile_lost_events",
    "profile_contradicts_device_time",
}


def checked(row: Row) -> bool:
    """Whether a derived row's clocks were compared with its profile."""
    if row["residual_s"] is None or not row["work_s"]:
        return False
    return phrases.on_cuda(row) or bool(row["dispatch_share"] <= MOST_DISPATCH)


def residual_s(rows: pd.DataFrame) -> pd.Series:
    """The work that is not in the profile; negative where the profile has more."""
    return rows["work_s"] * (1 - _reliable(rows, "_profiled_share"))


def device_idle_fraction(rows: pd.DataFrame) -> pd.Series:
    """The share of a call in which a GPU is idle."""
    return (1 - _reliable(rows, "_busy_share")).clip(lower=0)


def _reliable(rows: pd.DataFrame, share: str) -> pd.Series:
    """The values of a share, null where a flag marks the profile as unreliable."""
    values = per_row(rows, (estimate and estimate.value for estimate in rows[share]))
    doubtful = (not DOUBTS.isdisjoint(flags) for flags in rows["_flags"])
    return values.mask(per_row(rows, doubtful, "bool"))
