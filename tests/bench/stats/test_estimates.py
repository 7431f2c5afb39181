"""Intervals, verdicts and detectable effects against hand-computed values and planted truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, difference, product, quotient

TRIALS = 3000
Numbers = NDArray[np.float64]


def test_interval_rank_is_that_of_scipy() -> None:
    for n in range(1000):
        tails = special.bdtr(np.arange(n + 1), n, 0.5)
        expected = np.searchsorted(tails, estimates.ALPHA / 2, side="right") if n else 0
        assert estimates.interval_rank(n) == expected, n


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # P(Bin(12, 1/2) <= 2) = 79/4096 = 0.0193 <= 0.025; with 3: 299/4096 = 0.0730, so k = 3
        ([7, 1, 12, 4, 9, 2, 11, 5, 3, 10, 6, 8], Estimate(6.5, 3, 10)),
        (range(1, 14), Estimate(7, 3, 11)),  # 92/8192 = 0.0112, 378/8192 = 0.0461, so k = 3
        (range(-6, 6), Estimate(-0.5, -4, 3)),
        ([0.0] * 12, Estimate(0, 0, 0)),
        (range(11), Estimate(5, None, None)),
        ([-1.0], Estimate(-1, None, None)),
        ([], None),
        (None, None),
        ([1.0, math.nan], None),
        ([math.inf], None),
        ([1.0, None], None),
    ],
)
def test_median_interval(values: Sequence[float] | None, expected: Estimate | None) -> None:
    assert estimates.median_interval(values) == expected


def test_without_pairs_of_durations_there_is_no_speedup() -> None:
    good = [1.0] * 12
    for bad in (0.0, -1.0, math.nan, math.inf):
        spoiled = [*good[1:], bad]
        assert estimates.speedup(good, spoiled) is None
        assert estimates.speedup(spoiled, good) is None
        assert estimates.ratio(good, spoiled) is None
    assert estimates.speedup(good, None) is None
    assert estimates.speedup([], []) is None
    with pytest.raises(ValueError, match="12 rounds of the case and 11 of the baseline"):
        estimates.speedup(good, [1.0] * 11)


def test_a_ratio_is_of_the_pairs_that_both_have() -> None:
    assert estimates.ratio([-3.0, 6.0, 5.0, 9.0], [1.0, 2.0, 1.0]) == Estimate(3.0, None, None)


def test_speedup_by_hand() -> None:
    # ratios 1.01 ... 1.12: geometric middle of the 6th and 7th, 3rd and 10th as interval
    case_s = [1.0 + i for i in range(12)]
    baseline_s = [case * (1.01 + 0.01 * i) for i, case in enumerate(case_s)]
    ratio = estimates.speedup(case_s, baseline_s)
    assert (ratio.low, ratio.high) == pytest.approx((1.03, 1.10))
    assert ratio.value == pytest.approx(math.sqrt(1.06 * 1.07))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.011, 1.5, "faster"),
        (1.005, 1.5, "inconclusive"),  # excludes 1, but may be less than 1 %
        (0.995, 1.005, "equivalent"),
        (1.002, 1.008, "equivalent"),  # a real difference below the margin
        (0.995, 1.02, "inconclusive"),
        (0.5, 0.995, "inconclusive"),
        (0.5, 0.989, "slower"),
    ],
)
def test_verdicts(low: float, high: float, expected: str) -> None:
    mirror = {"faster": "slower", "slower": "faster"}
    assert estimates.verdict(Estimate((low + high) / 2, low, high)) == expected
    swapped = Estimate(2 / (low + high), 1 / high, 1 / low)
    assert estimates.verdict(swapped) == mirror.get(expected, expected)


def bounds(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def contains(estimate: Estimate, truth: float) -> bool:
    low, high = bounds(estimate)
    return low <= truth <= high


def noise(name: str, shape: tuple[int, int]) -> tuple[Numbers, float]:
    """Synthetic noise and its true median."""
    source = np.random.default_rng(7)
    normal = source.normal(size=shape)
    mixed = source.random(shape)
    return {
        "spiky": (normal + 50 * (mixed < 0.05), NormalDist().inv_cdf(0.5 / 0.95)),
        "bimodal": (normal + 8 * (mixed < 0.3), NormalDist().inv_cdf(0.5 / 0.7)),
        "quantised": (np.round(normal), 0.0),
    }[name]


@pytest.mark.parametrize("n", [12, 61])
@pytest.mark.parametrize("name", ["spiky", "bimodal", "quantised"])
def test_interval_covers_the_true_median(name: str, n: int) -> None:
    samples, truth = noise(name, (TRIALS, n))
    covered = [contains(estimates.median_interval(sample), truth) for sample in samples]
    assert np.mean(covered) >= 0.94


def ratios(true_ratio: float, n: int, seed: int, sigma: float = 0.03) -> list[Estimate]:
    """Speedups of many simulated runs of n rounds."""
    source = np.random.default_rng(seed)
    pace = source.lognormal(0, 0.2, (TRIALS, n))  # noise common to both blocks of a round
    case_s = pace * source.lognormal(0, sigma, (TRIALS, n))
    baseline_s = true_ratio * pace * source.lognormal(0, sigma, (TRIALS, n))
    return [estimates.speedup(*pair) for pair in zip(case_s, baseline_s, strict=True)]


@pytest.mark.parametrize("n", [12, 60])
@pytest.mark.parametrize("true_ratio", [1.02, 0.5])
def test_planted_ratio_lies_in_its_interval(true_ratio: float, n: int) -> None:
    inside = [contains(ratio, true_ratio) for ratio in ratios(true_ratio, n, seed=1)]
    assert 0.93 <= np.mean(inside) <= 0.98


def with_order_effect(effect: float, n: int, seed: int) -> list[Estimate]:
    """Speedups of equal steps whose later block of a round takes longer by `effect`."""
    source = np.random.default_rng(seed)
    speedups = []
    for _ in range(TRIALS):
        first = source.permutation(np.arange(n) % 2 == 0)
        case_s, baseline_s = source.lognormal(0, 0.003, (2, n))
        case_s[~first] *= 1 + effect
        baseline_s[first] *= 1 + effect
        speedups.append(estimates.speedup(case_s, baseline_s, first))
    return speedups


@pytest.mark.parametrize("n", [20, pytest.param(60, marks=pytest.mark.full)])
@pytest.mark.parametrize("effect", [0.005, 0.02])
def test_an_order_effect_is_taken_off(effect: float, n: int) -> None:
    speedups = with_order_effect(effect, n, seed=4)
    within = [bounds(each)[0] > 0.99 and bounds(each)[1] < 1.01 for each in speedups]
    assert np.mean(within) >= 0.99
    assert np.mean([contains(each, 1.0) for each in speedups]) >= 0.935


def test_one_interrupted_round_does_not_change_what_is_taken_off() -> None:
    """The slower of 21 rounds, half of them with an effect of 2 %, takes 5 times as long."""
    first = np.arange(21) % 2 == 0
    case_s, baseline_s = np.random.default_rng(8).lognormal(0, 0.002, (2, 21))
    case_s[~first] *= 1.02
    baseline_s[first] *= 1.02
    calm = estimates.speedup(case_s, baseline_s, first)
    case_s[np.argmax(case_s / baseline_s)] *= 5
    assert calm.value == pytest.approx(1, abs=0.003)
    assert estimates.speedup(case_s, baseline_s, first) == calm


@pytest.mark.parametrize("n", [12, 20])
def test_rounds_without_an_order_effect_stay_as_they_are(n: int) -> None:
    source = np.random.default_rng(5)
    first = np.arange(n) % 2 == 0
    changed = 0
    for case_s, baseline_s in source.lognormal(0, 0.01, (1000, 2, n)):
        moved = estimates.speedup(case_s, baseline_s, first)
        changed += moved != estimates.speedup(case_s, baseline_s)
    assert changed <= 12  # p = 0.005 for each, so more than 12 of 1000 in 0.2 % of such tests


def test_an_effect_of_the_mde_is_detected_in_four_of_five_runs() -> None:
    """A verdict beyond the margin of 1 % needs 1 % more, and never has the wrong sign."""
    null_runs = ratios(1.0, 60, seed=2)
    effect = float(np.median([estimates.mde(ratio) for ratio in null_runs]))
    detected = [bounds(ratio)[0] > 1 for ratio in ratios(1 + effect, 60, seed=3)]
    assert 0.75 <= np.mean(detected) <= 0.87
    assert np.mean([not contains(ratio, 1.0) for ratio in null_runs]) <= 0.05

    faster = (1 + effect) * (1 + estimates.MARGIN)
    for change, right, wrong in ((faster, "faster", "slower"), (1 / faster, "slower", "faster")):
        verdicts = [estimates.verdict(ratio) for ratio in ratios(change, 60, seed=5)]
        assert 0.75 <= np.mean([verdict == right for verdict in verdicts]) <= 0.87
        assert wrong not in verdicts


@pytest.mark.parametrize("n", [12, 60])
def test_equal_steps_seldom_get_a_verdict(n: int) -> None:
    verdicts = [estimates.verdict(ratio) for ratio in ratios(1.0, n, seed=6)]
    assert np.mean([verdict in ("faster", "slower") for verdict in verdicts]) <= 0.02


def test_mde_by_hand() -> None:
    # ln of the interval: +-0.02, so 1.43 * 0.02 = 0.0286, as a relative change exp(0.0286) - 1
    ratio = Estimate(1.0, math.exp(-0.02), math.exp(0.02))
    assert estimates.mde(ratio) == pytest.approx(0.029013, abs=1e-6)


def test_fewer_than_twelve_rounds_have_a_speedup_and_no_verdict() -> None:
    ratio = estimates.speedup([1e-3] * 11, [1.5e-3] * 11)
    assert ratio.value == pytest.approx(1.5)
    assert (ratio.low, ratio.high) == (None, None)
    assert (estimates.verdict(ratio), estimates.mde(ratio)) == (None, None)


PACE = [1.0 + 0.1 * i for i in range(12)]


def pilot(half_width: float) -> list[float]:
    """Twelve durations whose 3rd and 10th are half_width away from 1, on a log scale."""
    return [math.exp(half_width * sign) for sign in (-1.0,) * 3 + (0.0,) * 6 + (1.0,) * 3]


@pytest.mark.parametrize(
    ("case_s", "baseline_s", "expected"),
    [
        (pilot(0.01), [1.0] * 12, 48),  # 12 * (half_width / 0.005)**2
        (pilot(0.005), None, 20),
        (pilot(0.3), None, 240),
        (PACE, [1.1 * pace for pace in PACE], 20),  # a drift that both share
        (PACE, None, 240),
        ([1.0] * 3, [1.0] * 3, 240),  # too few for an interval
    ],
)
def test_rounds_needed(case_s: list[float], baseline_s: list[float] | None, expected: int) -> None:
    found = estimates.rounds_needed(case_s, baseline_s, math.expm1(0.005), 20, 240)
    assert found == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_student_quantile_is_that_of_scipy(alpha: float) -> None:
    for freedom in (*range(1, 200), 1000, 20_000):
        expected = special.stdtrit(freedom, 1 - alpha / 2)
        assert estimates.student_quantile(freedom, alpha) == pytest.approx(expected, rel=1e-11)


def test_slope_by_hand() -> None:
    # y = 1, 2, 2 at x = 1, 2, 3 with weights 1, 1/4, 1/4: middles x 1.5, y 4/3 (weights 4, 1, 1
    # of 6); moment (4 * 0.25 + 0.25 + 2.25) / 6 = 7/12; sum w (x - 1.5) y = (-2 + 1 + 3) / 6 = 1/3;
    # slope 4/7; residuals -1/21, 8/21, -4/21: sum w r**2 = 2/63; error sqrt(2/63 / 1 / (7/12)).
    line = estimates.slope([1, 2, 3], [1.0, 2.0, 2.0])
    half_width = 12.7062 * math.sqrt(2 / 63 * 12 / 7)
    assert line.value == pytest.approx(4 / 7)
    assert bounds(line) == pytest.approx((4 / 7 - half_width, 4 / 7 + half_width), rel=1e-5)


def test_a_slope_needs_three_sizes_and_durations() -> None:
    for x, y in (
        (None, None),
        ([1, 1, 2, 2], [1.0, 1.1, 2.0, 2.1]),  # two distinct x
        ([1, 2, 3], [1.0, 0.0, 3.0]),
        ([1, 2, 3], [1.0, math.nan, 3.0]),
    ):
        assert estimates.slope(x, y) is None
    with pytest.raises(ValueError, match="got 3 x and 2 y"):
        estimates.slope([1, 2, 3], [1.0, 2.0])


def test_planted_slope_lies_in_its_interval() -> None:
    source = np.random.default_rng(4)
    x = np.array([1, 4, 16, 64, 256], dtype=np.float64)
    noisy = (3e-6 + 1e-6 * x) * source.lognormal(0, 0.02, (TRIALS, len(x)))
    assert 0.93 <= np.mean([contains(estimates.slope(x, y), 1e-6) for y in noisy]) <= 0.97


ONE = Estimate(1.2, 1.1, 1.3)


@pytest.mark.parametrize(
    ("processes", "expected"),
    [
        ([None, ONE, None], ONE),  # a single process keeps its own interval
        ([None], None),
        ([Estimate(1.0, 0.9, 1.05), Estimate(4.0, 3.9, 4.2)], Estimate(2.0, 0.9, 4.2)),  # the hull
        ([Estimate(1.0, None, None), Estimate(1.0, 0.9, 1.1)], Estimate(1.0, None, None)),
        ([Estimate(1.0, None, None)] + [Estimate(1.0, 0.9, 1.1)] * 2, Estimate(1.0, None, None)),
        ([ONE, Estimate(0.0, -1.0, 1.0)], None),
    ],
)
def test_processes_are_combined(
    processes: list[Estimate | None], expected: Estimate | None
) -> None:
    assert estimates.combine(processes) == expected


def test_three_processes_give_the_interval_of_their_means() -> None:
    # ln: -0.1, 0, 0.1: standard deviation 0.1; the width of each interval does not matter
    each = [Estimate(math.exp(off), 0.99, 1.01) for off in (-0.1, 0.0, 0.1)]
    together = estimates.combine(each)
    assert together.value == pytest.approx(1.0)
    half_width = 4.30265 * 0.1 / math.sqrt(3)
    assert bounds(together) == pytest.approx((math.exp(-half_width), math.exp(half_width)))


@pytest.mark.parametrize("processes", [3, 10])
def test_the_interval_covers_the_truth_where_processes_differ_more_than_rounds(
    processes: int,
) -> None:
    source = np.random.default_rng(processes)
    values = 1.25 * source.lognormal(0, 0.02, (TRIALS, processes))
    runs = [[Estimate(v, v * 0.999, v * 1.001) for v in trial] for trial in values]
    covered = [contains(estimates.combine(run), 1.25) for run in runs]
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(
    ("values", "signed", "value", "half_width"),
    [
        ([2.0, 4.0, 8.0], False, 4.0, 4.302653 * math.log(2) / math.sqrt(3)),
        ([-1.0, 0.0, 1.0, 0.0, 0.0], True, 0.0, 2.776445 * math.sqrt(2 / 4) / math.sqrt(5)),
        ([2.0, 8.0], False, 4.0, None),
        ([-3.0], True, -3.0, None),
    ],
)
def test_values_of_processes_have_an_interval_from_three_on(
    values: list[float], signed: bool, value: float, half_width: float | None
) -> None:
    mean = estimates.of_processes(values, signed)
    assert mean.value == pytest.approx(value)
    if half_width is None:
        assert (mean.low, mean.high) == (None, None)
    else:
        ends = (value - half_width, value + half_width)
        if not signed:
            ends = (value * math.exp(-half_width), value * math.exp(half_width))
        assert bounds(mean) == pytest.approx(ends)


def test_without_values_of_processes_there_is_no_mean() -> None:
    for values in (None, [], [1.0, math.nan, 1.0], [1.0, 0.0, 2.0]):
        assert estimates.of_processes(values) is None


def test_relative_spread() -> None:
    assert estimates.relative_spread([math.exp(-0.02), 1.0, math.exp(0.02)]) == pytest.approx(0.02)
    assert estimates.relative_spread([1.0]) is None
    assert estimates.relative_spread([1.0, 0.0]) is None


TEN, TWO = Estimate(10.0, 9.0, 12.0), Estimate(2.0, 1.0, 3.0)
OPEN = Estimate(2.0, None, None)


def test_the_ends_of_a_result_are_the_worst_case() -> None:
    assert quotient(TEN, TWO) == Estimate(5.0, 3.0, 12.0)
    assert difference(TEN, TWO) == Estimate(8.0, 6.0, 11.0)
    assert product(TEN, TWO) == Estimate(20.0, 9.0, 36.0)
    # without an interval the result has none
    assert quotient(TEN, OPEN) == Estimate(5.0, None, None)
    assert difference(OPEN, TWO) == Estimate(0.0, None, None)
    assert product(OPEN, TEN) == Estimate(20.0, None, None)


def test_unknown_terms_make_the_result_unknown() -> None:
    assert difference(TEN, None) is product(None, TEN) is None
    for unknown in (None, Estimate(1.0, -0.5, 2.0), Estimate(0.0, None, None)):
        assert quotient(TEN, unknown) is quotient(unknown, TEN) is None
