"""Rank statistics: pure functions on numbers, numpy only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


def ranked(values: Numbers) -> NDArray[np.float64]:
    """Ranks 1 ... n of `values`; equal values share the mean of their ranks."""
    _, places, ties = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(ties) - (ties - 1) / 2
    return shared[places]


def mann_whitney_z(first: Numbers, second: Numbers) -> float:
    """By how many standard deviations the ranks of `first` exceed chance; 0 if all are equal.

    Normal approximation with the variance for ties and a continuity correction of half a rank
    towards 0 (Lehmann, Nonparametrics: Statistical Methods Based on Ranks, sections 1.3 and 1.4;
    Conover, Practical Nonparametric Statistics, 3rd ed., section 5.1). Neither may be empty.
    """
    both = np.concatenate([first, second])
    n, total = len(first), len(both)
    ties = np.unique(both, return_counts=True)[1].astype(np.float64)
    tied = float(np.sum(ties**3 - ties)) / (total * (total - 1))
    deviation = math.sqrt(n * (total - n) / 12 * (total + 1 - tied))
    excess = float(ranked(both)[:n].sum()) - n * (total + 1) / 2
    beyond = max(0.0, abs(excess) - 0.5)
    return math.copysign(beyond / deviation, excess) if beyond else 0.0
