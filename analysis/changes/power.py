"""What a comparison could have shown, and how many processes would show more."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from modescope.analysis.changes.welch import Change, Numbers, log_margin, quantile
from modescope.bench.stats.estimates import ALPHA

POWER = 0.8
"""Share of comparisons in which a change of the stated size is shown."""

_NORMAL = NormalDist().inv_cdf(POWER)

SHOWN = 0.02
"""The change that the stated number of replicates shows; twice the margin if that is larger."""

MOST = 1000  # replicates that anyone would be advised to run


def detectable(one: Change, margin: float, alpha: float = ALPHA) -> Numbers:
    """The change (a logarithm) whose interval lies beyond `margin` in 80 % of such comparisons.

    `alpha` is one minus the confidence of the interval. By the normal approximation of the
    noncentral t (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions, vol. 2, 2nd
    ed., section 31.5).
    """
    limit, freedom = quantile(one.freedom, alpha), one.freedom
    spread = np.sqrt(1 + limit**2 / (2 * freedom))  # the error is an estimate, too
    return margin + (limit * (1 - 1 / (4 * freedom)) + _NORMAL * spread) * one.error


def target(margin: float) -> float:
    """The change that the advice on replicates is for, as a logarithm."""
    return log_margin(max(SHOWN, 2 * math.expm1(margin)))


def replicates_needed(one: Change, margin: float, old: int, new: int) -> int | None:
    """The least number of replicates a side that shows `target`, from `old` and `new` processes.

    Extrapolated with the spread that was seen; None beyond 1,000.
    """
    now = 2 / (1 / old + 1 / new)
    for count in range(2, MOST + 1):
        error = one.error * math.sqrt(now / count)
        freedom = one.freedom * (count - 1) / (now - 1)
        if detectable(Change(one.value, error, freedom), margin) <= target(margin):
            return count
    return None
