"""Decides the verdict on a change of timing, and computes which changes could be shown.

The functions are pure and work on arrays, so that thousands of comparisons can be simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from modescope.analysis.changes import LogChange, Numbers, log_margin, quantile
from modescope.bench.stats.estimates import ALPHA

Booleans = NDArray[np.bool_]


class TimingVerdict(StrEnum):
    """What a comparison says of the timing of a row."""

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
    """The largest changes that are too small to matter, as logarithms (0.01: about 1 %).

    `against_eager` is for the time relative to eager, `latency` for the latency.
    """

    against_eager: float
    latency: float


def is_slower(latency: LogChange, margins: Margins) -> Booleans:
    """Whether the whole interval of the latency's change lies above the margin."""
    return np.asarray(latency.low > margins.latency)


def is_behind_eager(against_eager: LogChange, margins: Margins) -> Booleans:
    """Whether the whole interval of the change relative to eager lies above the margin."""
    return np.asarray(against_eager.low > margins.against_eager)


def eager_kept_its_pace(eager: LogChange, margins: Margins) -> Booleans:
    """Whether the interval excludes that eager became faster by more than the margin."""
    return np.asarray(eager.low > -margins.against_eager)


def is_broken(control: LogChange, margins: Margins) -> Booleans:
    """Whether the whole interval of `control` lies beyond the margin, above or below.

    `control` is the change of eager's time relative to itself. The true ratio is 1 in both studies,
    so such a change means that the measurement was disturbed.
    """
    return is_behind_eager(control, margins) | (control.high < -margins.against_eager)


def verdict(
    against: LogChange | None, eager: LogChange | None, latency: LogChange, margins: Margins
) -> TimingVerdict:
    """Returns the verdict on one row: the first of the following that holds.

    SLOWER: the latency rose by more than its margin. LOST: the time relative to eager did, and
    eager did not become faster; EAGER_MAYBE: it may have. FASTER: the latency fell by more than the
    margin, and the time relative to eager did not rise by more. NO_WORSE: neither rose by more.
    UNDECIDED: the intervals, which decide all this, are too wide. `against` is the change relative
    to eager, `eager` the change of eager itself. Both are None for a row without a baseline, which
    is judged by its latency alone.
    """
    if is_slower(latency, margins):
        return TimingVerdict.SLOWER
    if against is not None and eager is not None and is_behind_eager(against, margins):
        kept = eager_kept_its_pace(eager, margins)
        return TimingVerdict.LOST if kept else TimingVerdict.EAGER_MAYBE
    bounded = against is None or against.high < margins.against_eager
    if bounded and latency.high < -margins.latency:
        return TimingVerdict.FASTER
    no_worse = bounded and latency.high < margins.latency
    return TimingVerdict.NO_WORSE if no_worse else TimingVerdict.UNDECIDED


def detectable(change: LogChange, margin: float, alpha: float = ALPHA) -> Numbers:
    """Returns the true change that 80 % of comparisons like `change` would show to exceed `margin`.

    Both are logarithms. `alpha` is one minus the confidence of the interval. The formula is the
    normal approximation of the noncentral t distribution (Johnson, Kotz and Balakrishnan,
    Continuous Univariate Distributions, vol. 2, 2nd ed., section 31.5).
    """
    limit, freedom = quantile(change.freedom, alpha), change.freedom
    spread = np.sqrt(1 + limit**2 / (2 * freedom))  # the error is an estimate, too
    return margin + (limit * (1 - 1 / (4 * freedom)) + _NORMAL * spread) * change.error


def target(margin: float) -> float:
    """The change that `replicates_needed` is to show: 2 %, or twice `margin` if that is larger.

    Both the result and `margin` are logarithms.
    """
    return log_margin(max(SHOWN, 2 * math.expm1(margin)))


def replicates_needed(change: LogChange, margin: float, old: int, new: int) -> int | None:
    """The least number of replicates per study that would show a change of size `target(margin)`.

    It is extrapolated from `change`, which was measured with `old` and `new` processes. The
    result is None if more than 1,000 replicates are needed.
    """
    now = 2 / (1 / old + 1 / new)
    for count in range(2, MOST + 1):
        error = change.error * math.sqrt(now / count)
        freedom = change.freedom * (count - 1) / (now - 1)
        if detectable(LogChange(change.value, error, freedom), margin) <= target(margin):
            return count
    return None
