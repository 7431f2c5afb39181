"""Estimates in a table, which holds each as one column of Estimate or None, and in its rows.

Three columns, of values, low ends and high ends, are only in files and in what is exported
(`metrics.flat`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modescope.bench.stats.estimates import Estimate

if TYPE_CHECKING:
    import pandas as pd


def values(column: pd.Series) -> pd.Series:
    """Returns the value of each estimate in `column`, NaN where there is none."""
    return _numbers(column, [point(estimate) for estimate in column])


def lows(column: pd.Series) -> pd.Series:
    """Returns the low end of each estimate in `column`, NaN where it is unknown."""
    return _numbers(column, [estimate and estimate.low for estimate in column])


def highs(column: pd.Series) -> pd.Series:
    """Returns the high end of each estimate in `column`, NaN where it is unknown."""
    return _numbers(column, [estimate and estimate.high for estimate in column])


def point(estimate: Estimate | None) -> float | None:
    """Returns the value of an estimate without its interval; None without an estimate."""
    return None if estimate is None else estimate.value


def number_of(row: Mapping[str, Any], column: str) -> float | None:
    """Returns the number in a row's column whose name is computed; of an estimate its value."""
    held: Estimate | float | None = row[column]
    return held.value if isinstance(held, Estimate) else held


def low(estimate: Estimate | None) -> float:
    """Returns the low end of an interval, which the caller knows to be there."""
    assert estimate is not None
    assert estimate.low is not None
    return estimate.low


def high(estimate: Estimate | None) -> float:
    """Returns the high end of an interval, which the caller knows to be there."""
    assert estimate is not None
    assert estimate.high is not None
    return estimate.high


def _numbers(column: pd.Series, numbers: list[float | None]) -> pd.Series:
    import pandas as pd  # which reading a command line does without

    found: pd.Series = pd.Series(numbers, index=column.index, dtype="float64")
    return found
