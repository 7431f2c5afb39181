"""Combines the estimates of a case's processes as `stats.combine` does, for many cases at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import ALPHA, Estimate

PARTS = ("value", "low", "high")
"""Columns of an encoded estimate."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Cases:
    """Cases by the positions of their runs, and those of equally many runs as one array."""

    places: Sequence[Sequence[int]]

    def by_size(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each number of runs: the positions of the cases, and a row of runs for each."""
        sizes = np.fromiter(map(len, self.places), np.int64, len(self.places))
        found = []
        for size in np.unique(sizes):
            of_size = np.flatnonzero(sizes == size)
            rows = np.array([self.places[place] for place in of_size.tolist()], np.int64)
            found.append((of_size, rows))
        return found


def combined(runs: pd.DataFrame, name: str, cases: Cases) -> list[Estimate | None]:
    """The combined estimate of each case.

    `runs` have a column of estimates (`run_stats.decoded`), or one for each part of them
    (`run_stats.frame`), where NaN is unknown.
    """
    if name in runs:
        values = runs[name].tolist()
        return [estimates.combine([values[at] for at in case]) for case in cases.places]
    parts = [runs[f"{name}.{part}"].to_numpy() for part in PARTS]
    found: list[Estimate | None] = [None] * len(cases.places)
    if np.isnan(parts[0]).all():
        return found
    for of_size, rows in cases.by_size():
        each = _combined(*(part[rows] for part in parts))
        for place, estimate in zip(of_size.tolist(), each, strict=True):
            found[place] = estimate
    return found


def _combined(values: Numbers, lows: Numbers, highs: Numbers) -> list[Estimate | None]:
    """The estimates of cases with equally many runs (a row for each case)."""
    if values.shape[1] == 1:
        columns = (values[:, 0].tolist(), lows[:, 0].tolist(), highs[:, 0].tolist())
        return [estimate(*one) for one in zip(*columns, strict=True)]
    positive = (values > 0) & ~np.isnan(lows) & ~np.isnan(highs)  # not for an unknown value
    whole = positive.all(axis=1) & (values.shape[1] > 2)
    found: list[Estimate | None] = [None] * len(values)
    for place in np.flatnonzero(~whole & ~np.isnan(values).all(axis=1)).tolist():
        found[place] = _of_one(values[place], lows[place], highs[place])
    for place, one in zip(np.flatnonzero(whole).tolist(), _of_many(values[whole]), strict=True):
        found[place] = one
    return found


def _of_many(values: Numbers) -> list[Estimate]:
    """The estimates of cases whose three or more runs all have positive values and intervals."""
    if not len(values):
        return []
    logs, runs = np.log(values), values.shape[1]
    middles, errors = logs.mean(axis=1), logs.std(axis=1, ddof=1) / math.sqrt(runs)
    widths = estimates.student_quantile(runs - 1, ALPHA) * errors
    return [
        Estimate(math.exp(middle), math.exp(middle - width), math.exp(middle + width))
        for middle, width in zip(middles.tolist(), widths.tolist(), strict=True)
    ]


def _of_one(values: Numbers, lows: Numbers, highs: Numbers) -> Estimate | None:
    columns = (values.tolist(), lows.tolist(), highs.tolist())
    return estimates.combine([estimate(*one) for one in zip(*columns, strict=True)])


def values_of(runs: pd.DataFrame, name: str) -> list[float | None]:
    """The value of each run's estimate; None without one."""
    if name in runs:
        return [None if one is None else one.value for one in runs[name]]
    return [None if value != value else value for value in runs[f"{name}.value"].tolist()]


def estimate(value: float, low: float, high: float) -> Estimate | None:
    """The estimate with these parts, where NaN is unknown."""
    if value != value:
        return None
    return Estimate(value, None if low != low else low, None if high != high else high)
