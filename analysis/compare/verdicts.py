"""The verdict on the timing of a row, and what a comparison could have shown.

Pure functions on numbers, along the last axis, so that thousands of comparisons can be simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from modescope.analysis.changes import Change, Numbers, log_margin, quantile
from modescope.bench.stats.estimates import ALPHA

Booleans = NDArray[np.bool_]

SLOWER = "slower"
LOST = "lost to eager"
EAGER_MAYBE = "undecided: eager may have become faster"
FASTER = "faster"
NO_WORSE = "no worse"
UNDECIDED = "undecided"

POWER = 0.8
"""The share of comparisons in which a change of the stated size is shown."""

_NORMAL = NormalDist().inv_cdf(POWER)

SHOWN = 0.02
"""The change (2 %) that the advised number of replicates shows.

It is twice the margin if that is larger.
"""

MOST = 1000  # replicates that anyone would be advised to run


@dataclass(frozen=True)
class Margins:
    """Changes too small to matter, as logarithms: of the time against eager, and of the latency."""

    against_eager: float
    latency: float


def is_slower(latency: Change, margins: Margins) -> Booleans:
    """Whether the whole interval of the latency lies beyond the margin."""
    return np.asarray(latency.low > margins.latency)


def is_behind_eager(against_eager: Change, margins: Margins) -> Booleans:
    """Whether the whole interval of the time against eager lies beyond the margin."""
    return np.asarray(against_eager.low > margins.against_eager)


def eager_kept_its_pace(eager: Change, margins: Margins) -> Booleans:
    """Whether the interval shows that eager did not become faster by more than the margin."""
    return np.asarray(eager.low > -margins.against_eager)


def is_broken(control: Change, margins: Margins) -> Booleans:
    """Whether eager against itself changed by more than the margin.

    Its ratio is 1 on both sides, so such a change means that the measurement was disturbed.
    """
    return is_behind_eager(control, margins) | (control.high < -margins.against_eager)


def verdict(against: Change | None, eager: Change | None, latency: Change, margins: Margins) -> str:
    """The verdict on one row: SLOWER, LOST, EAGER_MAYBE, FASTER, NO_WORSE or UNDECIDED.

    The row's time against eager and eager's own time are None for a row without a baseline, whose
    latency is compared as it is.
    """
    if is_slower(latency, margins):
        return SLOWER
    if against is not None and eager is not None and is_behind_eager(against, margins):
        return LOST if eager_kept_its_pace(eager, margins) else EAGER_MAYBE
    bounded = against is None or against.high < margins.against_eager
    if bounded and latency.high < -margins.latency:
        return FASTER
    return NO_WORSE if bounded and latency.high < margins.latency else UNDECIDED


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
    """The logarithm of the change that `replicates_needed` is to show; `margin` is one, too."""
    return log_margin(max(SHOWN, 2 * math.expm1(margin)))


def replicates_needed(one: Change, margin: float, old: int, new: int) -> int | None:
    """The least number of replicates that each side needs to show a change of size `target`.

    It is extrapolated from `one`, a change measured with `old` and `new` processes. None beyond
    1,000.
    """
    now = 2 / (1 / old + 1 / new)
    for count in range(2, MOST + 1):
        error = one.error * math.sqrt(now / count)
        freedom = one.freedom * (count - 1) / (now - 1)
        if detectable(Change(one.value, error, freedom), margin) <= target(margin):
            return count
    return None
