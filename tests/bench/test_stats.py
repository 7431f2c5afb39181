"""Intervals, verdicts and detectable effects against hand-computed values and planted truth."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray

from bench import stats
from bench.stats import Estimate

TRIALS = 3000
Numbers = NDArray[np.float64]


def test_interval_of_twelve_is_third_to_tenth() -> None:
    # P(Bin(12, 1/2) <= 2) = (1 + 12 + 66) / 4096 = 0.0193 <= 0.025; with 3: 299 / 4096 = 0.0730.
    shuffled = [7, 1, 12, 4, 9, 2, 11, 5, 3, 10, 6, 8]
    assert stats.median_interval(shuffled) == Estimate(6.5, 3, 10)


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
    assert stats.interval_rank(n, alpha) == k


def test_odd_number_of_values() -> None:
    # n = 13: 92/8192 = 0.0112, 378/8192 = 0.0461, so k = 3.
    assert stats.median_interval(range(1, 14)) == Estimate(7, 3, 11)


@pytest.mark.parametrize("n", [1, 2, 5, 11])
def test_below_twelve_there_is_a_median_and_no_interval(n: int) -> None:
    assert stats.median_interval(range(n)) == Estimate((n - 1) / 2, None, None)


@pytest.mark.parametrize("values", [None, [], [1.0, math.nan], [math.inf], [1.0, None]])
def test_missing_values_give_nothing(values: list[float] | None) -> None:
    assert stats.median_interval(values) is None
    assert stats.speedup(values, values) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("bad_side", ["case", "baseline"])
def test_what_is_no_duration_gives_no_speedup(bad: float, bad_side: str) -> None:
    good, spoiled = [1.0] * 12, [1.0] * 11 + [bad]
    sides = (spoiled, good) if bad_side == "case" else (good, spoiled)
    assert stats.speedup(*sides) is None


def test_unpaired_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match="12 rounds of the case and 11 of the baseline"):
        stats.speedup([1.0] * 12, [1.0] * 11)


def test_no_baseline_gives_no_speedup() -> None:
    assert stats.speedup([1.0] * 12, None) is None


def test_ties_have_an_interval_of_no_width() -> None:
    tied = stats.speedup([2.0] * 12, [3.0] * 12)
    assert tied is not None
    assert (tied.value, tied.low, tied.high) == pytest.approx((1.5, 1.5, 1.5))
    assert stats.mde(tied) == 0


def test_speedup_by_hand() -> None:
    # ratios 1.01 ... 1.12: geometric middle of the 6th and 7th, 3rd and 10th as interval
    case_s = [1.0 + i for i in range(12)]
    baseline_s = [case * (1.01 + 0.01 * i) for i, case in enumerate(case_s)]
    ratio = stats.speedup(case_s, baseline_s)
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((1.03, 1.10))
    assert ratio.value == pytest.approx(math.sqrt(1.06 * 1.07))


def test_speedup_pairs_by_position() -> None:
    """A machine whose speed wanders 100-fold leaves the ratio of each round alone."""
    pace = np.exp(np.random.default_rng(0).uniform(-2.3, 2.3, 20))
    ratio = stats.speedup(pace, 1.25 * pace)
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == pytest.approx((1.25, 1.25, 1.25))


def test_faster_is_above_one_and_monotone() -> None:
    values = [stats.speedup([case_s] * 12, [1.0] * 12) for case_s in (2.0, 1.0, 0.5, 0.1)]
    ratios = [ratio.value for ratio in values if ratio is not None]
    assert ratios == pytest.approx([0.5, 1.0, 2.0, 10.0])
    assert [stats.verdict(ratio) for ratio in values] == [
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
        (1.002, 1.008, "equivalent"),  # a true difference too small to matter
        (0.995, 1.02, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (0.5, 0.995, "inconclusive"),
        (0.5, 0.989, "slower"),
    ],
)
def test_verdicts(low: float, high: float, expected: str) -> None:
    mirror = {"faster": "slower", "slower": "faster"}
    assert stats.verdict(Estimate((low + high) / 2, low, high)) == expected
    swapped = Estimate(2 / (low + high), 1 / high, 1 / low)
    assert stats.verdict(swapped) == mirror.get(expected, expected)


def test_margin_moves_the_verdict() -> None:
    ratio = Estimate(1.03, 1.02, 1.04)
    assert stats.verdict(ratio) == "faster"
    assert stats.verdict(ratio, margin=0.05) == "equivalent"


@pytest.mark.parametrize("ratio", [None, Estimate(1.5, None, None)])
def test_without_interval_no_verdict_and_no_mde(ratio: Estimate | None) -> None:
    assert stats.verdict(ratio) is None
    assert stats.mde(ratio) is None


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


@pytest.mark.parametrize("n", [12, 20, 61])
@pytest.mark.parametrize("name", ["normal", "spiky", "bimodal", "quantised"])
def test_interval_covers_the_true_median(name: str, n: int) -> None:
    samples, truth = noise(name, (TRIALS, n))
    covered = [contains(stats.median_interval(sample), truth) for sample in samples]
    assert np.mean(covered) >= 0.94


def ratios(true_ratio: float, n: int, seed: int, sigma: float = 0.03) -> list[Estimate | None]:
    """Speedups of many simulated runs of n rounds."""
    source = np.random.default_rng(seed)
    pace = source.lognormal(0, 0.2, (TRIALS, n))  # what a round's two blocks share
    case_s = pace * source.lognormal(0, sigma, (TRIALS, n))
    baseline_s = true_ratio * pace * source.lognormal(0, sigma, (TRIALS, n))
    return [stats.speedup(*pair) for pair in zip(case_s, baseline_s, strict=True)]


@pytest.mark.parametrize("true_ratio", [0.5, 1.0, 1.02, 3.0])
def test_planted_ratio_lies_in_its_interval(true_ratio: float) -> None:
    inside = [contains(ratio, true_ratio) for ratio in ratios(true_ratio, 20, seed=1)]
    assert 0.93 <= np.mean(inside) <= 0.98


def test_mde_is_what_four_runs_in_five_detect() -> None:
    null_runs = ratios(1.0, 60, seed=2)
    effect = float(np.median([stats.mde(ratio) or 0.0 for ratio in null_runs]))
    detected = [bounds(ratio)[0] > 1 for ratio in ratios(1 + effect, 60, seed=3)]
    assert 0.75 <= np.mean(detected) <= 0.87
    assert np.mean([not contains(ratio, 1.0) for ratio in null_runs]) <= 0.05


def test_mde_by_hand() -> None:
    # ln of the interval: +-0.02, so 1.43 * 0.02 = 0.0286, as a relative change exp(0.0286) - 1
    ratio = Estimate(1.0, math.exp(-0.02), math.exp(0.02))
    assert stats.mde(ratio) == pytest.approx(0.029013, abs=1e-6)


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
    assert stats.rounds_needed(case_s, baseline_s, goal, 20, 240) == pytest.approx(expected, abs=1)


def test_drift_shared_by_a_round_needs_no_more_rounds() -> None:
    pace = [1.0 + 0.1 * i for i in range(12)]
    assert stats.rounds_needed(pace, [1.1 * p for p in pace], 0.005, 20, 240) == 20
    assert stats.rounds_needed(pace, None, 0.005, 20, 240) == 240


def test_a_pilot_that_says_nothing_asks_for_the_most() -> None:
    assert stats.rounds_needed([1.0] * 3, [1.0] * 3, 0.005, 20, 240) == 240
    assert stats.rounds_needed([1.0, 1.5, 1.1], None, 0.005, 3, 3) == 3
