"""How near is a call to the least time that its work can take here? The roofline's floor."""

from __future__ import annotations

import pandas as pd

from analysis import words
from analysis.words import Row
from bench.roofline.floor import Ceilings, Floor, Work, floor


def floor_s(rows: pd.DataFrame) -> pd.Series:
    """The least time of the counted work within the measured ceilings, whatever the mode."""
    found = [_floor(row) for row in words.as_rows(rows)]
    told = [None if known is None else known.seconds for known in found]
    return pd.Series(told, index=rows.index, dtype="float64")


def floor_bound(rows: pd.DataFrame) -> pd.Series:
    """Is it arithmetic (compute) or bandwidth (memory) that sets this floor?"""
    found = [_floor(row) for row in words.as_rows(rows)]
    told = [None if known is None else known.bound for known in found]
    return pd.Series(told, index=rows.index, dtype="object")


def roofline_fraction(rows: pd.DataFrame) -> pd.Series:
    """Which part of the time of the work would have done?"""
    told: pd.Series = rows["floor_s"] / rows["work_s"].where(lambda work: work > 0)
    return told


def _floor(row: Row) -> Floor | None:
    least_bytes, bandwidth = row["least_bytes"], row["ceiling_bytes_per_s"]
    if row["status"] != "ok" or least_bytes is None or bandwidth is None:
        return None
    # the stored bandwidth is that of a copy of this size already
    ceilings = Ceilings(row["ceiling_flops_per_s"], ((int(least_bytes), bandwidth),))
    return floor(Work(row["flops"], int(least_bytes)), ceilings)
