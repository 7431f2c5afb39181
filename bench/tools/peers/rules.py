"""Rules by which two samples are called different: pure functions of seconds per call.

Each takes the case's and the baseline's samples and returns SLOWER or FASTER (the case), or SAME.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist, fmean

import numpy as np

from modescope.bench.stats import estimates
from modescope.bench.stats.ranks import mann_whitney_z
from modescope.bench.tools.peers.sides import CallTimes

SLOWER, FASTER, SAME = "slower", "faster", "same"

ALPHA = 0.05
THRESHOLD = 0.01

DecisionRule = Callable[[CallTimes, CallTimes], str]
TimeStatistic = Callable[[CallTimes], float]


def interval_excludes_one(case_s: CallTimes, baseline_s: CallTimes) -> str:
    """modescope: the 95 % interval of the speedup of paired rounds lies on one side of 1."""
    ratio = estimates.speedup(case_s, baseline_s)
    if ratio is None or ratio.low is None or ratio.high is None:
        return SAME
    return FASTER if ratio.low > 1 else SLOWER if ratio.high < 1 else SAME


def verdict_differs(case_s: CallTimes, baseline_s: CallTimes) -> str:
    """The verdict of modescope: that interval lies beyond 1 % on one side."""
    verdict = estimates.verdict(estimates.speedup(case_s, baseline_s))
    return verdict if verdict in (SLOWER, FASTER) else SAME


def more_than_a_percent(statistic: TimeStatistic) -> DecisionRule:
    """A statistic of the two differs by more than 1 %, symmetrically."""

    def decide(case_s: CallTimes, baseline_s: CallTimes) -> str:
        case, baseline = statistic(case_s), statistic(baseline_s)
        if case > baseline * (1 + THRESHOLD):
            return SLOWER
        return FASTER if baseline > case * (1 + THRESHOLD) else SAME

    return decide


def quartiles_apart(case_s: CallTimes, baseline_s: CallTimes) -> str:
    """The ranges from first to third quartile do not overlap."""
    case_low, case_high = np.quantile(case_s, (0.25, 0.75))
    baseline_low, baseline_high = np.quantile(baseline_s, (0.25, 0.75))
    if case_low > baseline_high:
        return SLOWER
    return FASTER if case_high < baseline_low else SAME


def student(case_s: CallTimes, baseline_s: CallTimes) -> str:
    """Student's two-sample t-test, two-sided at 95 %, with the pooled variance.

    As in `pyperf compare_to` (pyperf/_utils.py, is_significant). SAME below two samples each.
    """
    counts = len(case_s), len(baseline_s)
    if min(counts) < 2:
        return SAME
    difference = fmean(case_s) - fmean(baseline_s)
    freedom = sum(counts) - 2
    squares = np.var(case_s) * counts[0] + np.var(baseline_s) * counts[1]
    error = math.sqrt(squares / freedom * (1 / counts[0] + 1 / counts[1]))
    return _signed(
        difference, abs(difference) >= estimates.student_quantile(freedom, ALPHA) * error
    )


def mann_whitney(case_s: CallTimes, baseline_s: CallTimes) -> str:
    """Mann-Whitney's rank test, two-sided at 95 %, on all samples as if they were independent."""
    z = mann_whitney_z(case_s, baseline_s)
    return _signed(z, abs(z) > NormalDist().inv_cdf(1 - ALPHA / 2))


def _signed(difference: float, significant: bool) -> str:
    if not significant or difference == 0:
        return SAME
    return SLOWER if difference > 0 else FASTER
