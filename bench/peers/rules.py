"""When are two samples called different? One rule per function, pure, on seconds per call.

Each takes the case's samples and the baseline's, and says SLOWER or FASTER (the case), or SAME.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist, fmean

import numpy as np

from bench import stats
from bench.peers.sides import Samples
from bench.ranks import mann_whitney_z

SLOWER, FASTER, SAME = "slower", "faster", "same"

ALPHA = 0.05
THRESHOLD = 0.01

Rule = Callable[[Samples, Samples], str]
Statistic = Callable[[Samples], float]


def interval_excludes_one(case_s: Samples, baseline_s: Samples) -> str:
    """modescope: the 95 % interval of the speedup of paired rounds lies on one side of 1."""
    ratio = stats.speedup(case_s, baseline_s)
    if ratio is None or ratio.low is None or ratio.high is None:
        return SAME
    return FASTER if ratio.low > 1 else SLOWER if ratio.high < 1 else SAME


def verdict_differs(case_s: Samples, baseline_s: Samples) -> str:
    """modescope: that interval lies beyond 1 % on one side, which is its verdict."""
    told = stats.verdict(stats.speedup(case_s, baseline_s))
    return told if told in (SLOWER, FASTER) else SAME


def more_than_a_percent(statistic: Statistic) -> Rule:
    """A statistic of the two differs by more than 1 %; seen from either side alike."""

    def decide(case_s: Samples, baseline_s: Samples) -> str:
        case, baseline = statistic(case_s), statistic(baseline_s)
        if case > baseline * (1 + THRESHOLD):
            return SLOWER
        return FASTER if baseline > case * (1 + THRESHOLD) else SAME

    return decide


def quartiles_apart(case_s: Samples, baseline_s: Samples) -> str:
    """The ranges from first to third quartile do not overlap."""
    case_low, case_high = np.quantile(case_s, (0.25, 0.75))
    baseline_low, baseline_high = np.quantile(baseline_s, (0.25, 0.75))
    if case_low > baseline_high:
        return SLOWER
    return FASTER if case_high < baseline_low else SAME


def student(case_s: Samples, baseline_s: Samples) -> str:
    """Student's two-sample t-test, two-sided at 95 %, with the pooled variance.

    As `pyperf compare_to` does it (pyperf/_utils.py, is_significant). SAME below two samples each.
    """
    counts = len(case_s), len(baseline_s)
    if min(counts) < 2:
        return SAME
    difference = fmean(case_s) - fmean(baseline_s)
    freedom = sum(counts) - 2
    squares = np.var(case_s) * counts[0] + np.var(baseline_s) * counts[1]
    error = math.sqrt(squares / freedom * (1 / counts[0] + 1 / counts[1]))
    return _signed(difference, abs(difference) >= stats.student_quantile(freedom, ALPHA) * error)


def mann_whitney(case_s: Samples, baseline_s: Samples) -> str:
    """Mann-Whitney's rank test, two-sided at 95 %, on all samples as if they were independent."""
    z = mann_whitney_z(case_s, baseline_s)
    return _signed(z, abs(z) > NormalDist().inv_cdf(1 - ALPHA / 2))


def _signed(difference: float, significant: bool) -> str:
    if not significant or difference == 0:
        return SAME
    return SLOWER if difference > 0 else FASTER
