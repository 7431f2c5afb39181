"""Estimates from rounds (intervals, speedup, verdict) and from several rows (slopes).

Pure functions on numbers. They return None if there is no result: with too few rounds for an
interval, or a value that is missing, infinite or not a duration.

Medians have order-statistic intervals: [x(k), x(n+1-k)] covers the true median with a probability
that depends on the binomial distribution alone, whatever the noise looks like (David and Nagaraja,
Order Statistics, 3rd ed., section 7.1; Conover, Practical Nonparametric Statistics, 3rd ed.,
section 3.2). A bootstrap of the median, the usual alternative, covers too little at the sample
sizes of benchmarks: 91 to 94 % instead of 95 % at n <= 30.

Products, quotients and differences of estimates have worst-case intervals: nothing is assumed about
the correlation of errors, so an interval may be wider than necessary, never narrower. If one end of
an operand is unknown, both ends of the result are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import mul, sub, truediv

import numpy as np
from numpy.typing import NDArray

from modescope.bench.stats.orders import CaseFirst, remove_order_effect

ALPHA = 0.05
MIN_ROUNDS = 12  # the fewest at which the interval leaves out two rounds per side: [x(3), x(10)]
MARGIN = 0.01  # changes of less than 1 % are called equivalent: too small to choose a mode by
# A 95 % interval excludes 1 in 80 % of runs if the change is (1.960 + 0.842) / 1.960 half-widths.
DETECTABLE_HALF_WIDTHS = 1.43

WIDE = 1.5
"""If the ends of a ratio's interval are further apart than by this factor, the middle says nothing:
rounds of two levels gave 10.73 [1.29, 13.42] for a ratio of 1.4."""

Samples = Sequence[float] | NDArray[np.float64] | None


class Verdict(StrEnum):
    """What the interval of a ratio says, against 1 + MARGIN and its reciprocal."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"  # the whole interval lies between the two
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Estimate:
    """A value and the ends of its interval, which are None if there are too few values for one."""

    value: float
    low: float | None
    high: float | None


def median_interval(values: Samples) -> Estimate | None:
    """Returns the median of `values` with its interval, in the unit of `values`.

    None if there are no values or one is not finite. Below MIN_ROUNDS values there is no interval.
    """
    if (numbers := finite(values)) is None:
        return None
    ordered = np.sort(numbers)
    n = len(ordered)
    value = float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    k = interval_rank(n) if n >= MIN_ROUNDS else 0
    if k == 0:
        return Estimate(value, None, None)
    return Estimate(value, float(ordered[k - 1]), float(ordered[n - k]))


@cache
def interval_rank(n: int) -> int:
    """Returns the k for which the k-th smallest and k-th largest of `n` values bound their median.

    They are the ends of its interval. k is the largest with P(Bin(n, 1/2) <= k - 1) <= ALPHA / 2,
    exactly; 0 if there is none.
    """
    k, term, tail = 0, 1, 1  # tail = the sum of C(n, i) for i = 0 ... k
    while k < n and tail / 2**n <= ALPHA / 2:
        term = term * (n - k) // (k + 1)
        tail += term
        k += 1
    return k


def speedup(case_s: Samples, baseline_s: Samples, case_first: CaseFirst = None) -> Estimate | None:
    """Returns how many times as fast as the baseline the case is. Above 1 the case is faster.

    `case_s[i]` and `baseline_s[i]` come from round i, so whatever slowed that round cancels in d =
    ln(baseline / case). The result is the median of d and its interval, as ratios. `case_first[i]`
    says whether the case ran first in round i; a significant effect of this order is removed
    (`bench.stats.orders`). Returns None without pairs, or if a value is not a positive duration.
    Raises ValueError if the two lengths differ, because then nothing is paired.
    """
    log_ratios = _log_ratios(case_s, baseline_s)
    if log_ratios is None:
        return None
    log_ratio = median_interval(remove_order_effect(log_ratios, case_first))
    if log_ratio is None:
        return None
    if log_ratio.low is None or log_ratio.high is None:
        return Estimate(math.exp(log_ratio.value), None, None)
    return Estimate(*map(math.exp, (log_ratio.value, log_ratio.low, log_ratio.high)))


def ratio(top_s: Samples, bottom_s: Samples) -> Estimate | None:
    """Returns the median of `top_s[i]` ÷ `bottom_s[i]`, both from round i, with its interval.

    The longer of the two is cut, because a clock may end before the last round. Values of `top_s`
    may be negative, as slopes can be. Returns None without pairs, if a value is not finite, or if a
    value of `bottom_s` is not positive.
    """
    if top_s is None or bottom_s is None:
        return None
    pairs = min(len(top_s), len(bottom_s))
    top, bottom = finite(top_s[:pairs]), finite(bottom_s[:pairs])
    if top is None or bottom is None or bottom.min() <= 0:
        return None
    return median_interval(top / bottom)


def verdict(ratio: Estimate | None) -> Verdict | None:
    """Returns what the interval of `ratio` says; None without an interval.

    The limits are 1 + MARGIN and its reciprocal, so swapping case and baseline mirrors the verdict.
    """
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    upper = 1 + MARGIN
    lower = 1 / upper
    if ratio.low > upper:
        return Verdict.FASTER
    if ratio.high < lower:
        return Verdict.SLOWER
    is_inside = lower <= ratio.low and ratio.high <= upper
    return Verdict.EQUIVALENT if is_inside else Verdict.INCONCLUSIVE


def is_wide(ratio: Estimate | None) -> bool:
    """Whether the interval is so wide (WIDE) that only its ends may be told; False without one."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return False
    return ratio.high > WIDE * ratio.low


def hull(ratios: Sequence[Estimate]) -> Estimate:
    """Returns the interval that has all of `ratios` in it; its value is that of the first."""
    every = [ends(ratio) for ratio in ratios]
    return Estimate(ratios[0].value, min(low for low, _ in every), max(high for _, high in every))


def mde(ratio: Estimate | None) -> float | None:
    """Returns the smallest true change (0.02: 2 %) whose interval excludes 1 in 80 % of such runs.

    Computed from the interval, because a few spikes would inflate a standard deviation.
    """
    half_width = _log_half_width(ratio)
    return None if half_width is None else math.expm1(DETECTABLE_HALF_WIDTHS * half_width)


def slope(x: Samples, y: Samples) -> Estimate | None:
    """Returns the slope of y over x, in units of y per unit of x.

    Weighted least squares with weights 1 / y**2, which suit noise proportional to y, as durations
    have. The interval is the t-interval of the slope with n - 2 degrees of freedom, from the
    residuals (Draper and Smith, Applied Regression Analysis, 3rd ed., chapters 1 and 9). Returns
    None below three distinct x, because two points leave no residual, or if a y is not a positive
    duration. Raises ValueError if the two lengths differ.
    """
    if x is not None and y is not None and len(x) != len(y):
        raise ValueError(f"got {len(x)} x and {len(y)} y; a line needs one y for each x")
    places, values = finite(x), finite(y)
    if places is None or values is None or len(set(places.tolist())) < 3 or values.min() <= 0:
        return None
    weights = values**-2 / np.sum(values**-2)
    middle = np.sum(weights * places)
    moment = np.sum(weights * (places - middle) ** 2)
    per_unit = float(np.sum(weights * (places - middle) * values) / moment)
    residuals = values - np.sum(weights * values) - per_unit * (places - middle)
    freedom = len(values) - 2
    error = math.sqrt(np.sum(weights * residuals**2) / freedom / moment)
    half_width = student_quantile(freedom, ALPHA) * error
    return Estimate(per_unit, per_unit - half_width, per_unit + half_width)


def combine(estimates: Sequence[Estimate | None], signed: bool = False) -> Estimate | None:
    """Combines the estimates of a case's replicate processes; a single one is returned unchanged.

    Rounds of one process share its memory layout and thread placement, so they are never pooled:
    each process counts once. The result is the geometric mean of K values, or the arithmetic one if
    they are `signed`, as differences are. From K = 3 on it has the t-interval of the mean of
    ln(value), or of the values, with K - 1 degrees of freedom, which covers the variation between
    processes. For K = 2 that would be 12.7 standard errors wide, so the interval is the hull of
    both intervals. If a process has no interval, neither has the result. Processes without an
    estimate are left out. None if none is left, or if one of several values is not positive and
    they are not `signed`.
    """
    known = [estimate for estimate in estimates if estimate is not None]
    if len(known) < 2:
        return known[0] if known else None
    if not signed and min(estimate.value for estimate in known) <= 0:
        return None
    back = float if signed else math.exp
    values = np.array([estimate.value for estimate in known])
    scaled = values if signed else np.log(values)
    middle = float(scaled.mean())
    lows = [estimate.low for estimate in known if estimate.low is not None]
    highs = [estimate.high for estimate in known if estimate.high is not None]
    if min(len(lows), len(highs)) < len(known):
        return Estimate(back(middle), None, None)
    if len(known) == 2:
        return Estimate(back(middle), min(lows), max(highs))
    error = float(scaled.std(ddof=1)) / math.sqrt(len(known))
    half_width = student_quantile(len(known) - 1, ALPHA) * error
    return Estimate(back(middle), back(middle - half_width), back(middle + half_width))


def of_processes(values: Samples, signed: bool = False) -> Estimate | None:
    """Returns the mean of `values`, one of each process, geometric unless they are `signed`.

    From three values on it has the t-interval of `combine`: no order statistics of five values
    cover their median in 95 % of cases. None if there are no values, if one is not finite, or if
    one is not positive and they are not `signed`.
    """
    if (numbers := finite(values)) is None or (not signed and numbers.min() <= 0):
        return None
    mean = combine([exactly(float(number)) for number in numbers], signed)
    if mean is None or len(numbers) >= 3:
        return mean
    return Estimate(mean.value, None, None)


def relative_spread(values: Samples) -> float | None:
    """Returns the standard deviation of ln(value), which is relative; None below two values."""
    logs = logarithms(values)
    return None if logs is None or len(logs) < 2 else float(logs.std(ddof=1))


@cache
def student_quantile(freedom: int, alpha: float) -> float:
    """Returns the t that |T| exceeds with probability `alpha`, for whole degrees of freedom.

    Bisects the exact distribution (Abramowitz and Stegun, Handbook of Mathematical Functions,
    26.7.3 and 26.7.4): with t = sqrt(freedom) * tan(angle) it is a finite sum of cosines.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(64):
        angle = (low + high) / 2
        low, high = (angle, high) if _student_inside(angle, freedom) < 1 - alpha else (low, angle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _student_inside(angle: float, freedom: int) -> float:
    """Returns P(|T| <= sqrt(freedom) * tan(angle)), a sum over every second power of the cosine."""
    odd = freedom % 2
    term, total = math.cos(angle) if odd else 1.0, 0.0
    for place in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (place - 1) / place
    inside = math.sin(angle) * total
    return (angle + inside) * 2 / math.pi if odd else inside


def rounds_needed(
    case_s: Sequence[float],
    baseline_s: Sequence[float] | None,
    half_width: float,
    low: int,
    high: int,
) -> int:
    """Returns how many rounds, from `low` to `high`, give a relative half-width of `half_width`.

    Extrapolates from a pilot, as a half-width shrinks with 1 / sqrt(n); `high` without an interval.
    The interval is that of the ratio, or of the case's duration without a baseline.
    """
    pilot = speedup(case_s, [1.0] * len(case_s) if baseline_s is None else baseline_s)
    return rounds_for(pilot, len(case_s), half_width, low, high)


def rounds_for(pilot: Estimate | None, rounds: int, half_width: float, low: int, high: int) -> int:
    """Does what `rounds_needed` does, with `pilot`, the estimate of a pilot of `rounds` rounds."""
    spread = _log_half_width(pilot)
    if spread is None:
        return high
    needed = rounds * (spread / math.log1p(half_width)) ** 2
    return max(low, math.ceil(min(high, needed)))


def finite(values: Samples) -> NDArray[np.float64] | None:
    """Returns `values` as an array; None if there are none or one of them is not finite."""
    if values is None or len(values) == 0:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    return numbers if bool(np.isfinite(numbers).all()) else None


def logarithms(durations_s: Samples) -> NDArray[np.float64] | None:
    """Returns the logarithms of `durations_s`; None if there are none or one is not positive."""
    numbers = finite(durations_s)
    return None if numbers is None or numbers.min() <= 0 else np.log(numbers)


def check_paired(case_s: Samples, baseline_s: Samples) -> None:
    """Raises ValueError if case and baseline have different numbers of rounds."""
    if case_s is not None and baseline_s is not None and len(case_s) != len(baseline_s):
        raise ValueError(
            f"got {len(case_s)} rounds of the case and {len(baseline_s)} of the baseline; "
            "pairs need one of each per round"
        )


def _log_ratios(case_s: Samples, baseline_s: Samples) -> NDArray[np.float64] | None:
    check_paired(case_s, baseline_s)
    case, baseline = finite(case_s), finite(baseline_s)
    if case is None or baseline is None or min(case.min(), baseline.min()) <= 0:
        return None
    return np.log(baseline / case)


def _log_half_width(ratio: Estimate | None) -> float | None:
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    return math.log(ratio.high / ratio.low) / 2


def exactly(value: float) -> Estimate:
    """Returns `value`, which is known, as an estimate: both ends of its interval are `value`."""
    return Estimate(value, value, value)


ONE = exactly(1.0)


def ends(estimate: Estimate) -> tuple[float, float]:
    """Returns the ends of the interval. The value replaces an unknown end."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return (value if low is None else low), (value if high is None else high)


def quotient(top: Estimate | None, bottom: Estimate | None) -> Estimate | None:
    """Returns `top` ÷ `bottom`, both positive, with the worst-case interval.

    None if either is unknown, or if its interval includes 0, which makes the quotient unbounded.
    """
    if top is None or bottom is None or min(ends(top)[0], ends(bottom)[0]) <= 0:
        return None
    return _worst_case(truediv, top, bottom, crosswise=True)


def difference(first: Estimate | None, second: Estimate | None) -> Estimate | None:
    """Returns `first` - `second` with the worst-case interval; None if either is unknown."""
    if first is None or second is None:
        return None
    return _worst_case(sub, first, second, crosswise=True)


def product(first: Estimate | None, second: Estimate | None) -> Estimate | None:
    """Returns the product of two positive estimates with the worst-case interval.

    None if either is unknown.
    """
    if first is None or second is None:
        return None
    return _worst_case(mul, first, second, crosswise=False)


def _worst_case(
    by: Callable[[float, float], float], first: Estimate, second: Estimate, crosswise: bool
) -> Estimate:
    """Applies `by` to two estimates, with the widest interval that their intervals allow.

    `crosswise`: whether the lower end of the result comes from the upper end of `second`.
    """
    value, low, high = by(first.value, second.value), second.low, second.high
    if first.low is None or first.high is None or low is None or high is None:
        return Estimate(value, None, None)
    low, high = (high, low) if crosswise else (low, high)
    return Estimate(value, by(first.low, low), by(first.high, high))
