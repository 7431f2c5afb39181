"""Intervals, verdicts and detectable effects against hand-computed values and planted truth."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, difference, product, quotient

TRIALS = 3000
Numbers = NDArray[np.float64]


def test_interval_of_twelve_is_third_to_tenth() -> None:
    # P(Bin(12, 1/2) <= 2) = (1 + 12 + 66) / 4096 = 0.0193 <= 0.025; with 3: 299 / 4096 = 0.0730.
    shuffled = [7, 1, 12, 4, 9, 2, 11, 5, 3, 10, 6, 8]
    assert estimates.median_interval(shuffled) == Estimate(6.5, 3, 10)


@pytest.mark.parametrize(
    ("n", "alpha", "k"),
    [
        (0, 0.05, 0),
        (5, 0.05, 0),  # even the extremes miss: 1/32 > 0.025
        (6, 0.05, 1),  # 1/64 = 0.0156
        (12, 0.05, 3),
        (12, 0.01, 2),  # 13/4096 = 0.0032 <= 0.005, 79/4096 = 0.0193
        (20, 0.05, 6),  # 21700/2**20 = 0.0207, 60460/2**20 = 0.0577
        (2000, 0.05, 956),  # normal approximation: 1000 - 1.96 * sqrt(500) = 956.2
    ],
)
def test_interval_rank(n: int, alpha: float, k: int) -> None:
    assert estimates.interval_rank(n, alpha) == k


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_interval_rank_is_that_of_scipy(alpha: float) -> None:
    for n in range(1, 1000):
        tails = special.bdtr(np.arange(n + 1), n, 0.5)
        assert estimates.interval_rank(n, alpha) == np.searchsorted(
            tails, alpha / 2, side="right"
        ), n


def test_the_interval_of_an_odd_number_of_values() -> None:
    # n = 13: 92/8192 = 0.0112, 378/8192 = 0.0461, so k = 3.
    assert estimates.median_interval(range(1, 14)) == Estimate(7, 3, 11)


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_below_twelve_there_is_a_median_and_no_interval(n: int) -> None:
    assert estimates.median_interval(range(n)) == Estimate((n - 1) / 2, None, None)


def test_values_of_any_sign_have_a_median() -> None:
    assert estimates.median_interval([-1.0]) == Estimate(-1, None, None)
    assert estimates.median_interval([0.0] * 12) == Estimate(0, 0, 0)
    # log ratios around 0: [x(3), x(10)] of -6 ... 5
    assert estimates.median_interval(range(-6, 6)) == Estimate(-0.5, -4, 3)


@pytest.mark.parametrize("values", [None, [], [1.0, math.nan], [math.inf], [1.0, None]])
def test_missing_values_give_no_estimate(values: list[float] | None) -> None:
    assert estimates.median_interval(values) is None
    assert estimates.speedup(values, values) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("bad_side", ["case", "baseline"])
def test_values_that_are_not_durations_give_no_speedup(bad: float, bad_side: str) -> None:
    good, spoiled = [1.0] * 12, [1.0] * 11 + [bad]
    sides = (spoiled, good) if bad_side == "case" else (good, spoiled)
    assert estimates.speedup(*sides) is None
    assert estimates.ratio(good, spoiled) is None


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_below_twelve_rounds_a_speedup_has_no_interval_verdict_or_mde(n: int) -> None:
    ratio = estimates.speedup([1e-3] * n, [1.5e-3] * n)
    assert ratio.value == pytest.approx(1.5)
    assert (ratio.low, ratio.high) == (None, None)
    assert estimates.verdict(ratio) is None
    assert estimates.mde(ratio) is None


def test_twelve_rounds_have_interval_verdict_and_mde() -> None:
    ratio = estimates.speedup([1e-3] * 12, [1.5e-3] * 12)
    assert bounds(ratio) == pytest.approx((1.5, 1.5))
    assert estimates.verdict(ratio) == "faster"
    assert estimates.mde(ratio) == 0


def test_the_interval_of_partly_tied_rounds() -> None:
    # ratios 1.0 (four times), 1.5 (eight times): x(3) = 1.0, the median and x(10) = 1.5
    ratio = estimates.speedup([1.0] * 12, [1.0] * 4 + [1.5] * 8)
    assert ratio.value == pytest.approx(1.5)
    assert bounds(ratio) == pytest.approx((1.0, 1.5))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_one_invalid_round_gives_no_speedup(n: int, bad: float) -> None:
    spoiled = [1.0] * (n - 1) + [bad]
    assert estimates.speedup(spoiled, [1.0] * n) is None
    assert estimates.speedup([1.0] * n, spoiled) is None
    assert estimates.verdict(estimates.speedup(spoiled, spoiled)) is None
    assert estimates.mde(estimates.speedup(spoiled, spoiled)) is None


def test_unpaired_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match="12 rounds of the case and 11 of the baseline"):
        estimates.speedup([1.0] * 12, [1.0] * 11)


def test_no_baseline_gives_no_speedup() -> None:
    assert estimates.speedup([1.0] * 12, None) is None


def test_tied_rounds_have_an_interval_of_zero_width() -> None:
    tied = estimates.speedup([2.0] * 12, [3.0] * 12)
    assert tied is not None
    assert (tied.value, tied.low, tied.high) == pytest.approx((1.5, 1.5, 1.5))
    assert estimates.mde(tied) == 0


def test_speedup_by_hand() -> None:
    # ratios 1.01 ... 1.12: geometric middle of the 6th and 7th, 3rd and 10th as interval
    case_s = [1.0 + i for i in range(12)]
    baseline_s = [case * (1.01 + 0.01 * i) for i, case in enumerate(case_s)]
    ratio = estimates.speedup(case_s, baseline_s)
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((1.03, 1.10))
    assert ratio.value == pytest.approx(math.sqrt(1.06 * 1.07))


def test_speedup_pairs_by_position() -> None:
    """A machine whose speed varies 100-fold does not change the ratio of each round."""
    pace = np.exp(np.random.default_rng(0).uniform(-2.3, 2.3, 20))
    ratio = estimates.speedup(pace, 1.25 * pace)
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.25, 1.25, 1.25))


def test_faster_is_above_one_and_monotone() -> None:
    values = [estimates.speedup([case_s] * 12, [1.0] * 12) for case_s in (2.0, 1.0, 0.5, 0.1)]
    ratios = [ratio.value for ratio in values if ratio is not None]
    assert ratios == pytest.approx([0.5, 1.0, 2.0, 10.0])
    assert [estimates.verdict(ratio) for ratio in values] == [
        "slower",
        "equivalent",
        "faster",
        "faster",
    ]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.011, 1.5, "faster"),
        (1.005, 1.5, "inconclusive"),  # excludes 1, but may be less than 1 %
        (0.995, 1.005, "equivalent"),
        (1.002, 1.008, "equivalent"),  # a real difference below the margin
        (0.995, 1.02, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (0.5, 0.995, "inconclusive"),
        (0.5, 0.989, "slower"),
    ],
)
def test_verdicts(low: float, high: float, expected: str) -> None:
    mirror = {"faster": "slower", "slower": "faster"}
    assert estimates.verdict(Estimate((low + high) / 2, low, high)) == expected
    swapped = Estimate(2 / (low + high), 1 / high, 1 / low)
    assert estimates.verdict(swapped) == mirror.get(expected, expected)


def test_the_verdict_depends_on_the_margin() -> None:
    ratio = Estimate(1.03, 1.02, 1.04)
    assert estimates.verdict(ratio) == "faster"
    assert estimates.verdict(ratio, margin=0.05) == "equivalent"


@pytest.mark.parametrize("ratio", [None, Estimate(1.5, None, None)])
def test_without_an_interval_there_is_no_verdict_and_no_mde(ratio: Estimate | None) -> None:
    assert estimates.verdict(ratio) is None
    assert estimates.mde(ratio) is None


def bounds(estimate: Estimate | None) -> tuple[float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def contains(estimate: Estimate | None, truth: float) -> bool:
    low, high = bounds(estimate)
    return low <= truth <= high


def noise(name: str, shape: tuple[int, int]) -> tuple[Numbers, float]:
    """Synthetic noise and its true median."""
    source = np.random.default_rng(7)
    normal = source.normal(size=shape)
    mixed = source.random(shape)
    return {
        "normal": (normal, 0.0),
        "spiky": (normal + 50 * (mixed < 0.05), NormalDist().inv_cdf(0.5 / 0.95)),
        "bimodal": (normal + 8 * (mixed < 0.3), NormalDist().inv_cdf(0.5 / 0.7)),
        "quantised": (np.round(normal), 0.0),
    }[name]


def coverage(n: int, k: int) -> float:
    """P(k <= Bin(n, 1/2) <= n - k): how often [x(k), x(n+1-k)] holds the median."""
    return float(sum(math.comb(n, i) for i in range(k, n - k + 1)) / 2**n)


def test_the_coverage_is_the_smallest_above_95_percent() -> None:
    """Ranks are whole numbers, so few rounds exceed 95 %: up to 98.7 %, from 60 rounds 97.3 %."""
    for n in range(12, 481):
        k = estimates.interval_rank(n, 0.05)
        assert coverage(n, k + 1) < 0.95 <= coverage(n, k) < (0.988 if n < 60 else 0.974)


@pytest.mark.parametrize(
    "n",
    [
        12,
        61,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                20,
                120,
            )
        ),
    ],
)
@pytest.mark.parametrize("name", ["normal", "spiky", "bimodal", "quantised"])
def test_interval_covers_the_true_median(name: str, n: int) -> None:
    samples, truth = noise(name, (TRIALS, n))
    covered = [contains(estimates.median_interval(sample), truth) for sample in samples]
    assert np.mean(covered) >= 0.94


def ratios(true_ratio: float, n: int, seed: int, sigma: float = 0.03) -> list[Estimate | None]:
    """Speedups of many simulated runs of n rounds."""
    source = np.random.default_rng(seed)
    pace = source.lognormal(0, 0.2, (TRIALS, n))  # noise common to both blocks of a round
    case_s = pace * source.lognormal(0, sigma, (TRIALS, n))
    baseline_s = true_ratio * pace * source.lognormal(0, sigma, (TRIALS, n))
    return [estimates.speedup(*pair) for pair in zip(case_s, baseline_s, strict=True)]


@pytest.mark.parametrize(
    "n",
    [
        12,
        60,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                20,
                120,
            )
        ),
    ],
)
@pytest.mark.parametrize(
    "true_ratio",
    [
        1.0,
        1.02,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                0.5,
                3.0,
            )
        ),
    ],
)
def test_planted_ratio_lies_in_its_interval(true_ratio: float, n: int) -> None:
    inside = [contains(ratio, true_ratio) for ratio in ratios(true_ratio, n, seed=1)]
    assert 0.93 <= np.mean(inside) <= 0.98


def with_order_effect(effect: float, n: int, seed: int) -> list[Estimate | None]:
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


@pytest.mark.parametrize(
    "n",
    [
        20,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                60,
                120,
            )
        ),
    ],
)
@pytest.mark.parametrize("effect", [0.005, 0.02])
def test_an_order_effect_is_taken_off(effect: float, n: int) -> None:
    speedups = with_order_effect(effect, n, seed=4)
    within = [bounds(each)[0] > 0.99 and bounds(each)[1] < 1.01 for each in speedups]
    assert np.mean(within) >= 0.99
    assert np.mean([contains(each, 1.0) for each in speedups]) >= 0.935


@pytest.mark.parametrize(
    "n",
    [
        20,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                12,
                60,
            )
        ),
    ],
)
def test_rounds_without_an_order_effect_stay_as_they_are(n: int) -> None:
    source = np.random.default_rng(5)
    first = np.arange(n) % 2 == 0
    changed = 0
    for case_s, baseline_s in source.lognormal(0, 0.01, (1000, 2, n)):
        moved = estimates.speedup(case_s, baseline_s, first)
        changed += moved != estimates.speedup(case_s, baseline_s)
    assert changed <= 12  # p = 0.005 for each, so more than 12 of 1000 in 0.2 % of such tests


def test_an_effect_of_the_mde_is_detected_in_four_of_five_runs() -> None:
    null_runs = ratios(1.0, 60, seed=2)
    effect = float(np.median([estimates.mde(ratio) or 0.0 for ratio in null_runs]))
    detected = [bounds(ratio)[0] > 1 for ratio in ratios(1 + effect, 60, seed=3)]
    assert 0.75 <= np.mean(detected) <= 0.87
    assert np.mean([not contains(ratio, 1.0) for ratio in null_runs]) <= 0.05


def test_an_effect_of_mde_plus_margin_gets_a_verdict() -> None:
    """A change of mde is detected in 80 % of runs; a verdict beyond 1 % needs 1 % more."""
    effect = float(np.median([estimates.mde(ratio) for ratio in ratios(1.0, 60, seed=2)]))
    for margin in (1 + estimates.MARGIN, 1 / (1 + estimates.MARGIN)):
        change = (1 + effect) * margin if margin > 1 else margin / (1 + effect)
        verdicts = [estimates.verdict(ratio) for ratio in ratios(change, 60, seed=5)]
        right, wrong = ("faster", "slower") if margin > 1 else ("slower", "faster")
        assert 0.75 <= np.mean([verdict == right for verdict in verdicts]) <= 0.87
        assert wrong not in verdicts


@pytest.mark.parametrize(
    "n",
    [
        20,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                12,
                60,
                120,
            )
        ),
    ],
)
@pytest.mark.parametrize("sigma", [0.002, 0.03])
def test_equal_steps_seldom_get_a_verdict(sigma: float, n: int) -> None:
    verdicts = [estimates.verdict(ratio) for ratio in ratios(1.0, n, seed=6, sigma=sigma)]
    assert np.mean([verdict in ("faster", "slower") for verdict in verdicts]) <= 0.02


def test_equal_steps_with_little_noise_are_called_equivalent() -> None:
    verdicts = [estimates.verdict(ratio) for ratio in ratios(1.0, 20, seed=6, sigma=0.002)]
    assert np.mean([verdict == "equivalent" for verdict in verdicts]) >= 0.99


def test_mde_by_hand() -> None:
    # ln of the interval: +-0.02, so 1.43 * 0.02 = 0.0286, as a relative change exp(0.0286) - 1
    ratio = Estimate(1.0, math.exp(-0.02), math.exp(0.02))
    assert estimates.mde(ratio) == pytest.approx(0.029013, abs=1e-6)


def pilot_with_half_width(half_width: float) -> list[float]:
    """Twelve durations whose 3rd and 10th are half_width away from 1, on a log scale."""
    return [math.exp(half_width * sign) for sign in (-1.0,) * 3 + (0.0,) * 6 + (1.0,) * 3]


@pytest.mark.parametrize(
    ("pilot_half_width", "expected"),
    [(0.01, 48), (0.0125, 75), (0.005, 20), (0.0001, 20), (0.3, 240)],  # 12 * (h / 0.005)**2
)
@pytest.mark.parametrize("has_baseline", [True, False])
def test_rounds_needed(pilot_half_width: float, expected: int, has_baseline: bool) -> None:
    case_s = pilot_with_half_width(pilot_half_width)
    baseline_s = [1.0] * 12 if has_baseline else None
    goal = math.expm1(0.005)
    assert estimates.rounds_needed(case_s, baseline_s, goal, 20, 240) == pytest.approx(
        expected, abs=1
    )


def test_drift_shared_by_a_round_needs_no_more_rounds() -> None:
    pace = [1.0 + 0.1 * i for i in range(12)]
    assert estimates.rounds_needed(pace, [1.1 * p for p in pace], 0.005, 20, 240) == 20
    assert estimates.rounds_needed(pace, None, 0.005, 20, 240) == 240


def test_an_inconclusive_pilot_needs_the_most_rounds() -> None:
    assert estimates.rounds_needed([1.0] * 3, [1.0] * 3, 0.005, 20, 240) == 240
    assert estimates.rounds_needed([1.0, 1.5, 1.1], None, 0.005, 3, 3) == 3


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.1, 0.05, 0.01, 0.001])
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
    assert line is not None
    assert line.value == pytest.approx(4 / 7)
    assert bounds(line) == pytest.approx((4 / 7 - half_width, 4 / 7 + half_width), rel=1e-5)


def test_the_slope_of_a_perfect_line_has_zero_width() -> None:
    line = estimates.slope([1, 2, 4, 8], [5e-6, 7e-6, 11e-6, 19e-6])
    assert line is not None
    assert (line.value, *bounds(line)) == pytest.approx((2e-6,) * 3)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (None, None),
        ([1, 2], [1.0, 2.0]),
        ([1, 1, 2, 2], [1.0, 1.1, 2.0, 2.1]),  # two distinct x
        ([1, 2, 3], [1.0, 0.0, 3.0]),
        ([1, 2, 3], [1.0, math.nan, 3.0]),
    ],
)
def test_a_slope_needs_three_sizes_and_durations(
    x: list[float] | None, y: list[float] | None
) -> None:
    assert estimates.slope(x, y) is None


def test_slope_of_unequal_lengths_is_an_error() -> None:
    with pytest.raises(ValueError, match="got 3 x and 2 y"):
        estimates.slope([1, 2, 3], [1.0, 2.0])


def test_planted_slope_lies_in_its_interval() -> None:
    source = np.random.default_rng(4)
    x = np.array([1, 4, 16, 64, 256], dtype=np.float64)
    noisy = (3e-6 + 1e-6 * x) * source.lognormal(0, 0.02, (TRIALS, len(x)))
    assert 0.93 <= np.mean([contains(estimates.slope(x, y), 1e-6) for y in noisy]) <= 0.97


def test_one_process_keeps_its_own_interval() -> None:
    one = Estimate(1.2, 1.1, 1.3)
    assert estimates.combine([one]) == one
    assert estimates.combine([None, one, None]) == one
    assert estimates.combine([]) is None
    assert estimates.combine([None]) is None


def test_two_processes_give_the_hull_of_their_intervals() -> None:
    both = estimates.combine([Estimate(1.0, 0.9, 1.05), Estimate(4.0, 3.9, 4.2)])
    assert both is not None
    assert both.value == pytest.approx(2.0)  # geometric
    assert bounds(both) == (0.9, 4.2)


def test_three_processes_give_the_interval_of_their_means() -> None:
    # ln: -0.1, 0, 0.1: standard deviation 0.1; the width of each interval does not matter
    each = [Estimate(math.exp(off), 0.99, 1.01) for off in (-0.1, 0.0, 0.1)]
    together = estimates.combine(each)
    assert together is not None
    assert together.value == pytest.approx(1.0)
    half_width = 4.30265 * 0.1 / math.sqrt(3)
    assert bounds(together) == pytest.approx((math.exp(-half_width), math.exp(half_width)))


@pytest.mark.parametrize("count", [2, 3])
def test_without_intervals_the_combination_has_none(count: int) -> None:
    together = estimates.combine(
        [Estimate(1.0, None, None)] + [Estimate(1.0, 0.9, 1.1)] * (count - 1)
    )
    assert together == Estimate(1.0, None, None)


def test_values_that_are_not_positive_are_not_combined() -> None:
    assert estimates.combine([Estimate(1.0, 0.9, 1.1), Estimate(0.0, -1.0, 1.0)]) is None


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_the_interval_covers_the_truth_where_processes_differ_more_than_rounds(
    processes: int,
) -> None:
    source = np.random.default_rng(processes)
    values = 1.25 * source.lognormal(0, 0.02, (TRIALS, processes))
    runs = [[Estimate(v, v * 0.999, v * 1.001) for v in trial] for trial in values]
    covered = [contains(estimates.combine(run), 1.25) for run in runs]
    assert 0.93 <= np.mean(covered) <= 0.97
    alone = [contains(run[0], 1.25) for run in runs]
    assert np.mean(alone) < 0.1  # the interval of one process


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


def test_without_an_interval_the_result_has_none() -> None:
    assert quotient(TEN, OPEN) == Estimate(5.0, None, None)
    assert difference(OPEN, TWO) == Estimate(0.0, None, None)
    assert product(OPEN, TEN) == Estimate(20.0, None, None)


@pytest.mark.parametrize("unknown", [None, Estimate(1.0, -0.5, 2.0), Estimate(0.0, None, None)])
def test_a_quotient_with_an_unknown_term_is_unknown(unknown: Estimate | None) -> None:
    assert quotient(TEN, unknown) is None
    assert quotient(unknown, TEN) is None


def test_unknown_terms_make_the_result_unknown() -> None:
    assert difference(TEN, None) is None
    assert product(None, TEN) is None
