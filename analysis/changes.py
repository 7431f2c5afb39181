"""Changes of logarithmic times between two sets of processes, with Welch's intervals.

The unit is a process, never a timed round: the rounds of one process share its memory layout, so
their spread says nothing about the next process. The spread between processes contains the error
within each process (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013). The
error within processes is a lower limit of the spread, because a few processes may agree by chance.

All functions work along the last axis, so that thousands of comparisons can be simulated at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from modescope.bench.stats.estimates import ALPHA, student_quantile

Numbers = NDArray[np.float64]

LEAST_PROCESSES = 3
"""The least number of processes, old and new each, for a statement about a change. The spread of
two is a guess."""

_FREEDOMS = (*range(1, 61), 80, 120, 240, 1000)


@dataclass(frozen=True)
class LogChange:
    """A change of the logarithm of a time from old to new, such as 0.02 for 2 % longer.

    `value`, its standard error `error` and its degrees of freedom `freedom` are arrays of one
    shape, with an element per comparison.
    """

    value: Numbers
    error: Numbers
    freedom: Numbers

    @property
    def low(self) -> Numbers:
        """The lower end of the 95 % interval."""
        return self.value - quantile(self.freedom) * self.error

    @property
    def high(self) -> Numbers:
        """The upper end of the 95 % interval."""
        return self.value + quantile(self.freedom) * self.error


@dataclass(frozen=True)
class LogTimes:
    """The logarithms of the times of old or new processes, and the standard error within each.

    Both arrays have the shape (..., processes).
    """

    values: Numbers
    within: Numbers

    @property
    def processes(self) -> int:
        """The number of processes."""
        return int(self.values.shape[-1])


def change(old: LogTimes, new: LogTimes) -> LogChange:
    """Returns the change of the mean from `old` to `new`, with Welch's interval over processes."""
    return mean_change([old], [new])


def mean_change(old: Sequence[LogTimes], new: Sequence[LogTimes]) -> LogChange:
    """Returns the mean over rows of each row's change from `old` to `new`.

    This is the change of what all rows share, such as their eager baseline. Every row has its own
    level; the spread between processes is pooled over rows.
    """
    changes = [
        after.values.mean(-1) - before.values.mean(-1)
        for before, after in zip(old, new, strict=True)
    ]
    value = np.asarray(sum(changes) / len(changes), dtype=np.float64)
    return with_error(value, [_of_side(old), _of_side(new)])


def total(first: LogChange, second: LogChange) -> LogChange:
    """Returns the sum of two changes whose errors are independent."""
    squares = [(term.error**2, term.freedom) for term in (first, second)]
    return with_error(first.value + second.value, squares)


def negative(change: LogChange) -> LogChange:
    """Returns the change in the opposite direction, from new to old."""
    return LogChange(-change.value, change.error, change.freedom)


def _of_side(rows: Sequence[LogTimes]) -> tuple[Numbers, Numbers]:
    """Returns the variance of the average of the rows' means, and its degrees of freedom.

    `rows` has a LogTimes per row, all of old or all of new processes.
    """
    freedom = sum(row.processes - 1 for row in rows)
    deviations = [row.values - row.values.mean(-1, keepdims=True) for row in rows]
    spread = sum((deviation**2).sum(-1) for deviation in deviations) / freedom
    floor = sum((row.within**2).sum(-1) for row in rows) / sum(row.processes for row in rows)
    share = sum(1 / row.processes for row in rows) / len(rows) ** 2
    variance = np.asarray(np.maximum(spread, floor) * share, dtype=np.float64)
    return variance, np.full_like(variance, freedom)


def with_error(value: Numbers, parts: Sequence[tuple[Numbers, Numbers]]) -> LogChange:
    """Returns a LogChange of `value` whose error combines independent terms (Welch, Satterthwaite).

    `parts` has the variance and the degrees of freedom of each term.
    """
    variance = sum(term for term, _ in parts) + np.zeros_like(value)
    weights = sum(term**2 / freedom for term, freedom in parts)
    least = sum(freedom for _, freedom in parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(variance > 0, variance**2 / weights, least)
    return LogChange(value, np.sqrt(variance), freedom)


def quantile(freedom: Numbers, alpha: float = ALPHA) -> Numbers:
    """Returns the value that Student's |t| exceeds with probability `alpha` (`freedom` at least 1).

    The quantile is interpolated in 1 / freedom between whole numbers, where it is convex. Intervals
    are thus never too narrow, and at most 2 % too wide (20 % below two degrees of freedom).
    """
    places, values = _table(alpha)
    return np.interp(1 / np.asarray(freedom, dtype=np.float64), places, values)


@cache
def _table(alpha: float) -> tuple[list[float], list[float]]:
    freedoms = _FREEDOMS[::-1]
    return [1 / freedom for freedom in freedoms], [
        student_quantile(freedom, alpha) for freedom in freedoms
    ]


def log_margin(share: float) -> float:
    """Returns ln(1 + `share`) for a margin such as 0.01 (1 %)."""
    return math.log1p(share)
