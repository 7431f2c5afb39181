"""Diagnostics of rounds: values worked out by hand, false alarms on noise, planted disturbances."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from modescope.bench.records.columns.timing import Contention
from modescope.bench.stats import diagnostics
from modescope.bench.stats.diagnostics import (
    DIAGNOSTICS,
    MODE_DISTANCE,
    SEPARATION,
    is_contended,
    is_throttled,
)

Numbers = NDArray[np.float64]
QUESTIONS: dict[str, Callable[[Sequence[float] | None], Any]] = {
    "drift": diagnostics.drift,
    "autocorrelation": diagnostics.autocorrelation,
    "bimodality": diagnostics.bimodality,
    "order_effect": lambda values: diagnostics.order_effect(
        values, [i % 2 == 0 for i in range(len(values or ()))]
    ),
}
RISING = [0.01 * i for i in range(12)]


def two_sided(z: float) -> float:
    return 2 * NormalDist().cdf(-z)


def test_drift_by_hand() -> None:
    # 66 pairs rise: tau 1; variance 12 * 11 * 29 / 18 = 212.67, z = 65 / 14.583
    found = diagnostics.drift(RISING)
    assert found.statistic == pytest.approx(1)
    assert found.p == pytest.approx(two_sided(65 / math.sqrt(638 / 3)))
    assert found.size == pytest.approx(math.exp(0.08) - 1)  # medians of four: 0.095 and 0.015
    down = diagnostics.drift(RISING[::-1])
    assert (down.statistic, down.p) == pytest.approx((-1, found.p))
    assert down.size == pytest.approx(math.exp(-0.08) - 1)


def test_drift_with_ties_by_hand() -> None:
    # 36 of 66 pairs rise, 30 are tied: tau-b = 36 / sqrt(66 * 36); variance (3828 - 1020) / 18
    found = diagnostics.drift([0.0] * 6 + [0.01] * 6)
    assert found.statistic == pytest.approx(math.sqrt(6 / 11))
    assert found.p == pytest.approx(two_sided(35 / math.sqrt(156)))


def test_the_statistic_of_drift_is_scipys_kendall_tau() -> None:
    """With ties; the p values differ, as ours is corrected for continuity."""
    values = np.round(np.random.default_rng(0).normal(size=60), 1)
    expected = scipy.stats.kendalltau(np.arange(60), values).statistic
    assert diagnostics.drift(values).statistic == pytest.approx(expected, abs=1e-12)


def test_autocorrelation_by_hand() -> None:
    # ranks less 6.5: -5.5 ... 5.5; products of neighbours 107.25, squares 143
    found = diagnostics.autocorrelation(RISING)
    assert found.statistic == pytest.approx(0.75)
    assert found.p == pytest.approx(NormalDist().cdf(-(0.75 + 1 / 12) * math.sqrt(12)))
    assert found.size == pytest.approx(math.sqrt(7) - 1)  # (1 + 0.75) / (1 - 0.75)
    assert diagnostics.autocorrelation([*RISING[:-1], 50.0]) == found  # a spike decides nothing
    alternating = diagnostics.autocorrelation([0.0, 0.01] * 6)  # ranks 3.5 and 9.5
    assert alternating.statistic == pytest.approx(-11 / 12)
    assert (alternating.p > 0.99, alternating.size < 0) == (True, True)


def test_bimodality_by_hand() -> None:
    # both groups: variance 2 * 0.01**2 / 5, so D = 0.1 / sqrt(4e-5)
    group = [-0.01, 0.0, 0.0, 0.0, 0.0, 0.01]
    found = diagnostics.bimodality([*group, *(0.1 + value for value in group)])
    assert found.separation == pytest.approx(0.1 / math.sqrt(4e-5) * (1 - 2.1 / math.sqrt(12)))
    assert found.distance == pytest.approx(math.exp(0.1) - 1)
    assert diagnostics.bimodality([-7.0] * 7 + [-6.9] * 5).separation == math.inf


def is_bimodal(values: Sequence[float]) -> bool:
    found = diagnostics.bimodality(values)
    return found.separation > SEPARATION and found.distance > MODE_DISTANCE


@pytest.mark.parametrize(
    ("high", "distance", "expected"),
    [
        (5, 0.05, False),  # below 15 % of the rounds
        (6, 0.05, True),
        (34, 0.05, True),
        (35, 0.05, False),
        (20, 0.009, False),  # closer than 1 %
        (20, 0.011, True),
    ],
)
def test_modes_have_a_least_share_and_distance(high: int, distance: float, expected: bool) -> None:
    values = np.concatenate([np.linspace(-0.0003, 0.0003, each) for each in (high, 40 - high)])
    values[:high] += distance
    assert is_bimodal(values.tolist()) == expected


def test_order_effect_by_hand() -> None:
    # ranks 7 ... 12 ran first: sum 57 where 39 is expected, variance 6 * 6 * 13 / 12 = 39
    found = diagnostics.order_effect(RISING, [False] * 6 + [True] * 6)
    assert found.statistic == pytest.approx(17.5 / math.sqrt(39))
    assert found.p == pytest.approx(two_sided(17.5 / math.sqrt(39)))
    assert found.size == pytest.approx(math.exp(0.06) - 1)


def test_without_enough_rounds_of_both_orders_there_is_no_order_effect() -> None:
    for case_first in (None, [True] * 12, [True] * 8 + [False] * 4, [True, False] * 5):
        assert diagnostics.order_effect(RISING, case_first) is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_effect_needs_twelve_finite_values_that_differ(question: str) -> None:
    assert QUESTIONS[question](RISING) is not None
    for values in (None, [], RISING[:11], [0.5] * 12, [*RISING, math.nan], [*RISING, math.inf]):
        assert QUESTIONS[question](values) is None


def test_values_that_are_not_durations_raise_no_flag() -> None:
    rising, first = [math.exp(each) for each in RISING], [True, False] * 6
    assert diagnostics.flags(rising, None, None) == ("drift", "autocorrelated")
    assert diagnostics.flags(rising[:11], None, None) == ()
    assert diagnostics.flags(None, None, None) == ()
    for bad in (0.0, -1.0, math.nan):
        spoiled = [*rising[:-1], bad]
        assert diagnostics.flags(spoiled, None, None) == ()
        assert diagnostics.flags(spoiled, rising, first) == ()
        assert diagnostics.flags(rising, spoiled, first) == ()
    with pytest.raises(ValueError, match="12 rounds of the case and 11 of the baseline"):
        diagnostics.flags([1.0] * 12, [1.0] * 11, None)


def orders(source: np.random.Generator, n: int) -> NDArray[np.bool_]:
    """Both orders equally often, shuffled, as in real rounds."""
    return source.permutation(np.arange(n) % 2 == 0)


@pytest.mark.parametrize("decimals", [6, 0])  # 0: with many ties
@pytest.mark.parametrize("question", ["drift", "autocorrelation", "order_effect"])
def test_p_values_are_calibrated(question: str, decimals: int) -> None:
    noise = np.round(np.random.default_rng(20).normal(size=(2000, 20)), decimals)
    found = [QUESTIONS[question](values) for values in noise.tolist()]
    for p in (0.01, 0.05):
        assert np.mean([each.p < p for each in found]) <= 1.3 * p
    assert np.mean([each.p < 0.2 for each in found]) >= 0.15


@pytest.mark.parametrize("n", [12, 20, 60])
def test_a_single_flat_mode_is_not_bimodal(n: int) -> None:
    flat = np.random.default_rng(n).uniform(0, 0.1, (2000, n))
    assert np.mean([is_bimodal(values) for values in flat.tolist()]) <= 0.005


SIGMA = 0.03  # so wide that the floors on sizes hide no false alarm
NOISES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "quantised": lambda source, n: 1 + SIGMA * np.round(source.normal(size=n)),
    "spiky": lambda source, n: (
        source.lognormal(0, SIGMA, n) * np.where(source.random(n) < 0.05, 1.5, 1.0)
    ),
}


@pytest.mark.parametrize("n", [20, pytest.param(60, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", NOISES)
def test_noise_alone_seldom_raises_a_flag(name: str, n: int) -> None:
    source = np.random.default_rng(n)
    draw = NOISES[name]
    paired = [
        diagnostics.flags(draw(source, n), draw(source, n), orders(source, n)) for _ in range(800)
    ]
    alone = [diagnostics.flags(draw(source, n), None, None) for _ in range(400)]
    assert np.mean([flags != () for flags in paired]) <= 0.04
    assert np.mean([flags != () for flags in alone]) <= 0.04


def autoregressive(source: np.random.Generator, n: int, rho: float, sigma: float) -> Numbers:
    """AR(1) from its stationary distribution, of standard deviation `sigma`."""
    values = [source.normal(0, sigma)]
    for shock in source.normal(0, sigma * math.sqrt(1 - rho**2), n - 1):
        values.append(rho * values[-1] + shock)
    return np.array(values)


Disturbance = Callable[[np.random.Generator, NDArray[np.bool_]], tuple[Numbers, Numbers]]
"""The logarithms that are added to the case's and to the baseline's durations."""


def share_raised(flag: str, disturb: Disturbance, n: int) -> float:
    source = np.random.default_rng(n)
    hits = []
    for _ in range(200):
        first = orders(source, n)
        case, baseline = (
            np.exp(extra + source.normal(0, 0.005, n)) for extra in disturb(source, first)
        )
        hits.append(flag in diagnostics.flags(case, baseline, first))
    return float(np.mean(hits))


NONE = np.zeros(30)


@pytest.mark.parametrize(
    ("flag", "disturb"),
    [
        ("drift", lambda source, first: (np.linspace(0, 0.03, 30), NONE)),
        ("drift", lambda source, first: (np.where(np.arange(30) < 15, 0, 0.02), NONE)),
        ("bimodal", lambda source, first: (np.where(orders(source, 30), 0.05, 0.0), NONE)),
        ("order_effect", lambda source, first: (np.where(first, 0, 0.03), 0.03 * first)),
    ],
    ids=["ramp of 3 %", "step of 2 %", "modes 5 % apart", "3 % in every second block"],
)
def test_a_planted_disturbance_is_flagged(flag: str, disturb: Disturbance) -> None:
    """In 0.8 % of runs of 30 rounds two modes fall together with the order, which is taken off."""
    assert share_raised(flag, disturb, 30) >= 0.94  # of 20 rounds a step in 8 of 10 runs


@pytest.mark.parametrize(
    "course",
    [lambda at: 0.3 * at, lambda at: np.where(np.sin(60 * at) > 0, 0, 0.56)],
    ids=["ramp", "two speeds"],
)
def test_what_slows_both_sides_is_not_flagged(course: Callable[[Numbers], Numbers]) -> None:
    shared = course(np.arange(60) / 60)
    for flag in DIAGNOSTICS:
        assert share_raised(flag, lambda source, first: (shared, shared), 60) <= 0.02


def test_planted_autocorrelation_is_flagged() -> None:
    def disturb(source: np.random.Generator, first: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        return autoregressive(source, len(first), rho=0.6, sigma=0.02), np.zeros(len(first))

    assert share_raised("autocorrelated", disturb, 120) >= 0.95
    source = np.random.default_rng(0)
    runs = [np.exp(autoregressive(source, 120, rho=0.6, sigma=0.02)) for _ in range(200)]
    alone = [diagnostics.flags(run, None, None) for run in runs]
    assert np.mean(["autocorrelated" in each for each in alone]) >= 0.95


def test_significant_but_tiny_effects_raise_no_flag() -> None:
    """Without noise, half a permille is highly significant."""
    first = np.arange(120) % 2 == 0
    tiny = np.linspace(0, 0.0009, 120) + np.where(first, 0.0005, 0)
    assert diagnostics.drift(tiny).p < 1e-6
    assert diagnostics.order_effect(tiny, first).p < 1e-6
    flags = diagnostics.flags(np.exp(tiny), np.ones(120), first)
    assert not {"drift", "order_effect"} & set(flags)


def test_a_ratio_drifts_by_less_than_a_duration() -> None:
    between = np.exp(np.linspace(0, 0.0105, 60))  # 0.7 % from the first third to the last
    assert "drift" in diagnostics.flags(between, np.ones(60), None)
    assert "drift" not in diagnostics.flags(between, None, None)


def test_an_effect_of_the_order_raises_no_flag_about_the_speedup() -> None:
    """It is taken off the speedup, so two levels that it makes are none of the result."""
    source = np.random.default_rng(0)
    first = orders(source, 60)
    ratios = np.where(first, 0.02, -0.02) + source.normal(0, 0.002, 60)
    assert diagnostics.flags(np.ones(60), np.exp(ratios), first) == ("order_effect",)
    assert diagnostics.flags(np.ones(60), np.exp(ratios), None) == ("bimodal",)


QUIET = Contention(
    watched_s=2.0,
    cpu_wait_s=0.004,
    others_cpu_s=0.05,
    machine_cores=2,
    cgroup_throttled_s=0.0,
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"cpu_wait_s": 0.021}, True),  # 1 % of 2 s is 0.02 s
        # The idle time of each core is uncertain by 0.01 s.
        ({"others_cpu_s": 0.21}, False),
        ({"others_cpu_s": 0.23}, True),  # of 2 cores 5 % is 0.1 core: 0.2 s in 2 s
        ({"others_cpu_s": 0.20, "machine_cores": 1}, False),  # never less than 0.1 core
        ({"others_cpu_s": 7.0, "machine_cores": 64}, False),  # 5 % of 64 are 3.2 cores
        ({"others_cpu_s": 7.1, "machine_cores": 64}, True),
        ({"cgroup_throttled_s": 0.021}, True),
        ({"watched_s": None, "cpu_wait_s": 1.0}, False),
    ],
    ids=str,
)
def test_contention_begins_at_its_thresholds(changes: dict[str, float], expected: bool) -> None:
    assert is_contended(replace(QUIET, **changes)) is expected  # type: ignore[arg-type]


def test_unknown_counts_are_not_contention() -> None:
    assert not is_contended(Contention(watched_s=2.0))
    assert is_contended(Contention(watched_s=2.0, cpu_wait_s=1.0))
    of_gpu = [is_contended(QUIET, processes) for processes in (None, 0, 1)]
    assert of_gpu == [False, False, True]


@pytest.mark.parametrize(
    ("clocks_ghz", "expected"),
    [
        ((2.0, 1.95, 1.95), False),  # 2.5 % lower
        ((2.0, 1.93, 2.0), True),  # 3.5 % lower, if only for a while
        ((1.2, 1.98, 1.98), False),  # the clock rose from idle
        ((1.2, 1.98, 1.9), True),  # rose from idle and fell: the first reading is ignored
        ((2.0, 1.96, 1.92), True),  # 4 % lower in two steps
        ((), False),
        (None, False),
    ],
)
def test_a_clock_rate_that_falls_by_3_percent_is_throttled(
    clocks_ghz: tuple[float, ...] | None, expected: bool
) -> None:
    clocks_hz = None if clocks_ghz is None else tuple(each * 1e9 for each in clocks_ghz)
    assert is_throttled(clocks_hz, None) is expected
    assert is_throttled(clocks_hz, ()) is expected
    assert is_throttled(clocks_hz, ("sw_power_cap",))


def _time_slices(source: np.random.Generator, rounds: int, share: float) -> Numbers:
    """Blocks of 2 ms, into `share` of which a time slice of some 20 ms falls."""
    calm = 2e-3 * source.lognormal(0.0, 0.1, rounds)
    return calm + np.where(source.random(rounds) < share, source.uniform(13e-3, 30e-3, rounds), 0)


def test_time_slices_in_blocks_of_both_sides_are_two_levels() -> None:
    source = np.random.default_rng(57)
    raised = [
        "bimodal" in diagnostics.flags(
            _time_slices(source, 17, 0.35) / 1.4, _time_slices(source, 17, 0.6), None
        )
        for _ in range(200)
    ]  # fmt: skip
    assert np.mean(raised) > 0.9


def test_levels_that_both_sides_of_a_round_share_are_none_of_the_ratios() -> None:
    source = np.random.default_rng(58)
    pace = np.where(source.random((500, 60)) < 0.4, 1.75, 1.0)
    noise = source.lognormal(0.0, 0.02, (2, 500, 60))
    raised = [
        diagnostics.flags(a, b, None) for a, b in zip(pace * noise[0], pace * noise[1], strict=True)
    ]
    assert np.mean(["bimodal" in flags for flags in raised]) < 0.01


def test_broad_noise_of_single_blocks_has_no_levels() -> None:
    source = np.random.default_rng(59)
    sides = source.lognormal(0.0, 0.5, (1000, 2, 17))
    raised = [diagnostics.flags(case, baseline, None) for case, baseline in sides]
    assert np.mean(["bimodal" in flags for flags in raised]) < 0.01


LONGER = [1e-3 * (1 + each / 20) for each in range(30)]  # to 2.45 times the first


@pytest.mark.parametrize(
    ("durations_s", "paces_s", "found"),
    [
        (LONGER, [2e-5] * 30, True),
        (LONGER, None, True),
        (LONGER, [each / 50 for each in LONGER], False),  # as the machine slowed down
        ([1e-3, *[1e-3 * (1 + each / 100) for each in range(1, 30)]], None, False),  # by a third
        (random.Random(0).sample(LONGER, 30), None, False),
        ([1e-3] * 30, [2e-5] * 30, False),
        (None, [2e-5] * 30, False),
    ],
)
def test_calls_that_do_more_work_the_more_were_made_before(
    durations_s: list[float] | None, paces_s: list[float] | None, found: bool
) -> None:
    assert bool(diagnostics.grows(durations_s, paces_s)) is found
