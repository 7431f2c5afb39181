"""Diagnostics of rounds: values worked out by hand, false alarms on noise, planted disturbances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from modescope.bench.records.columns import Contention
from modescope.bench.stats import diagnostics
from modescope.bench.stats.diagnostics import (
    CLOCK_FALL,
    DIAGNOSTICS,
    MODE_DISTANCE,
    SEPARATION,
    contended,
    throttled,
)
from modescope.bench.timing.paired import play_pairs
from tests.helpers import made_up_records
from tests.helpers.simulated import SimulatedDevice, normal_noise, step

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


def test_drift_with_ties_by_hand() -> None:
    # 36 of 66 pairs rise, 30 are tied: tau-b = 36 / sqrt(66 * 36); variance (3828 - 1020) / 18
    found = diagnostics.drift([0.0] * 6 + [0.01] * 6)
    assert found.statistic == pytest.approx(math.sqrt(6 / 11))
    assert found.p == pytest.approx(two_sided(35 / math.sqrt(156)))


@pytest.mark.parametrize("n", [12, 60, 240])
def test_the_statistic_of_drift_is_scipys_kendall_tau(n: int) -> None:
    """The p values differ: ours is corrected for continuity."""
    random = np.random.default_rng(n)
    for digits in (1, 2, 6):
        values = np.round(random.normal(size=n), digits)
        expected = scipy.stats.kendalltau(np.arange(n), values).statistic
        assert diagnostics.drift(values).statistic == pytest.approx(expected, abs=1e-12)


def test_a_falling_drift_has_the_opposite_sign() -> None:
    up, down = diagnostics.drift(RISING), diagnostics.drift(RISING[::-1])
    assert (down.statistic, down.p) == pytest.approx((-up.statistic, up.p))
    assert down.size == pytest.approx(math.exp(-0.08) - 1)


def test_autocorrelation_by_hand() -> None:
    # ranks less 6.5: -5.5 ... 5.5; products of neighbours 107.25, squares 143
    found = diagnostics.autocorrelation(RISING)
    assert found.statistic == pytest.approx(0.75)
    assert found.p == pytest.approx(NormalDist().cdf(-(0.75 + 1 / 12) * math.sqrt(12)))
    assert found.size == pytest.approx(math.sqrt(7) - 1)  # (1 + 0.75) / (1 - 0.75)


def test_alternation_is_not_flagged_as_autocorrelation() -> None:
    found = diagnostics.autocorrelation([0.0, 0.01] * 6)  # ranks 3.5 and 9.5
    assert found.statistic == pytest.approx(-11 / 12)
    assert found.p > 0.99
    assert found.size < 0


def test_a_spike_does_not_decide_the_autocorrelation() -> None:
    spiked = [*RISING[:-1], 50.0]
    assert diagnostics.autocorrelation(spiked) == diagnostics.autocorrelation(RISING)


def test_bimodality_by_hand() -> None:
    # both groups: variance 2 * 0.01**2 / 5, so D = 0.1 / sqrt(4e-5)
    group = [-0.01, 0.0, 0.0, 0.0, 0.0, 0.01]
    found = diagnostics.bimodality([*group, *(0.1 + value for value in group)])
    assert found.separation == pytest.approx(0.1 / math.sqrt(4e-5) * (1 - 2.1 / math.sqrt(12)))
    assert found.distance == pytest.approx(math.exp(0.1) - 1)


def test_two_groups_without_spread_are_infinitely_far_apart() -> None:
    assert diagnostics.bimodality([-7.0] * 7 + [-6.9] * 5).separation == math.inf


def is_bimodal(values: Sequence[float]) -> bool:
    found = diagnostics.bimodality(values)
    return found.separation > SEPARATION and found.distance > MODE_DISTANCE


@pytest.mark.parametrize(("high", "expected"), [(5, False), (6, True), (34, True), (35, False)])
def test_a_group_below_15_percent_is_not_a_mode(high: int, expected: bool) -> None:
    spread = np.linspace(-0.001, 0.001, 40)
    spread[:high] += 0.05
    assert is_bimodal(spread.tolist()) == expected


def test_modes_closer_than_one_percent_are_not_flagged() -> None:
    spread = np.linspace(-0.0003, 0.0003, 40)
    for distance, expected in ((0.009, False), (0.011, True)):
        assert is_bimodal([*spread, *(spread + distance)]) == expected


def test_order_effect_by_hand() -> None:
    # ranks 7 ... 12 ran first: sum 57 where 39 is expected, variance 6 * 6 * 13 / 12 = 39
    found = diagnostics.order_effect(RISING, [False] * 6 + [True] * 6)
    assert found.statistic == pytest.approx(17.5 / math.sqrt(39))
    assert found.p == pytest.approx(two_sided(17.5 / math.sqrt(39)))
    assert found.size == pytest.approx(math.exp(0.06) - 1)


def test_order_effect_with_ties_by_hand() -> None:
    # two groups of six: 36 / 12 * (13 - 2 * 210 / 132)
    found = diagnostics.order_effect([0.01] * 6 + [0.0] * 6, np.array([False] * 6 + [True] * 6))
    assert found.statistic == pytest.approx(-17.5 / math.sqrt(3 * (13 - 420 / 132)))
    assert found.size == pytest.approx(math.exp(-0.01) - 1)


@pytest.mark.parametrize(
    "case_first", [None, [True] * 12, [True] * 8 + [False] * 4, [True, False] * 5]
)
def test_without_enough_rounds_of_both_orders_there_is_no_order_effect(
    case_first: list[bool] | None,
) -> None:
    assert diagnostics.order_effect(RISING, case_first) is None


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize(
    "values",
    [
        None,
        [],
        *(RISING[:n] for n in (1, 2, 5, 11)),
        [0.5] * 12,
        [*RISING, math.nan],
        [*RISING, math.inf],
    ],
    ids=str,
)
def test_effects_without_enough_values_are_none(question: str, values: list[float] | None) -> None:
    assert QUESTIONS[question](values) is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_twelve_rounds_are_enough(question: str) -> None:
    assert QUESTIONS[question](RISING) is not None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_values_that_are_not_durations_raise_no_flag(bad: float) -> None:
    rising = [math.exp(each) for each in RISING]
    spoiled, first = [*rising[:-1], bad], [True, False] * 6
    assert diagnostics.flags(rising, None, None) == ("drift", "autocorrelated")
    assert diagnostics.flags(spoiled, None, None) == ()
    assert diagnostics.flags(spoiled, rising, first) == ()
    assert diagnostics.flags(rising, spoiled, first) == ()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 11])
def test_below_twelve_rounds_no_flag_is_raised(n: int) -> None:
    rising = [math.exp(each) for each in RISING[:n]]
    assert diagnostics.flags(rising, [1.0] * n, [False] * n) == ()
    assert diagnostics.flags(None, None, None) == ()


def test_equal_rounds_raise_no_flag() -> None:
    assert diagnostics.flags([2e-3] * 60, [1e-3] * 60, [True, False] * 30) == ()


def test_unpaired_lengths_are_an_error() -> None:
    with pytest.raises(ValueError, match="12 rounds of the case and 11 of the baseline"):
        diagnostics.flags([1.0] * 12, [1.0] * 11, None)


def orders(source: np.random.Generator, n: int) -> NDArray[np.bool_]:
    """Both orders equally often, shuffled, as in real rounds."""
    return source.permutation(np.arange(n) % 2 == 0)


@pytest.mark.parametrize(
    "n", [20, *(pytest.param(each, marks=pytest.mark.full) for each in (120,))]
)
@pytest.mark.parametrize("decimals", [6, 0])  # 0: with many ties
@pytest.mark.parametrize("question", ["drift", "autocorrelation", "order_effect"])
def test_p_values_are_calibrated(question: str, decimals: int, n: int) -> None:
    source = np.random.default_rng(n)
    noise = np.round(source.normal(size=(2000, n)), decimals)
    found = [QUESTIONS[question](values) for values in noise.tolist()]
    for p in (0.01, 0.05):
        assert np.mean([each.p < p for each in found]) <= 1.3 * p
    assert np.mean([each.p < 0.2 for each in found]) >= 0.15


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
def test_a_single_flat_mode_is_not_bimodal(n: int) -> None:
    flat = np.random.default_rng(n).uniform(0, 0.1, (2000, n))
    assert np.mean([is_bimodal(values) for values in flat.tolist()]) <= 0.005


SIGMA = 0.03  # so wide that the floors on sizes hide no false alarm
NOISES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda source, n: 1 + SIGMA * source.normal(size=n),
    "log-normal": lambda source, n: source.lognormal(0, SIGMA, n),
    "quantised": lambda source, n: 1 + SIGMA * np.round(source.normal(size=n)),
    "spiky": lambda source, n: (
        source.lognormal(0, SIGMA, n) * np.where(source.random(n) < 0.05, 1.5, 1.0)
    ),
}


@pytest.mark.parametrize(
    "n", [pytest.param(20, marks=pytest.mark.full), 60, pytest.param(120, marks=pytest.mark.full)]
)
@pytest.mark.parametrize(
    "name",
    [
        "normal",
        "spiky",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                "log-normal",
                "quantised",
            )
        ),
    ],
)
def test_noise_alone_seldom_raises_a_flag(name: str, n: int) -> None:
    source = np.random.default_rng(n)
    draw = NOISES[name]
    play_pairs = [
        diagnostics.flags(draw(source, n), draw(source, n), orders(source, n)) for _ in range(800)
    ]
    alone = [diagnostics.flags(draw(source, n), None, None) for _ in range(400)]
    assert np.mean([flags != () for flags in play_pairs]) <= 0.04
    assert np.mean([flags != () for flags in alone]) <= 0.04


def autoregressive(source: np.random.Generator, n: int, rho: float, sigma: float) -> Numbers:
    """AR(1) from its stationary distribution, of standard deviation `sigma`."""
    values = [source.normal(0, sigma)]
    for shock in source.normal(0, sigma * math.sqrt(1 - rho**2), n - 1):
        values.append(rho * values[-1] + shock)
    return np.array(values)


# name -> (flag, logarithms that are added to the case's and to the baseline's durations)
Disturbance = Callable[[np.random.Generator, NDArray[np.bool_]], tuple[Numbers, Numbers]]
DISTURBANCES: dict[str, tuple[str, Disturbance]] = {
    "ramp of 3 % of the case alone": (
        "drift",
        lambda source, first: (np.linspace(0, 0.03, len(first)), np.zeros(len(first))),
    ),
    "step of 2 % of the case alone": (
        "drift",
        lambda source, first: (
            np.where(np.arange(len(first)) < len(first) // 2, 0, 0.02),
            np.zeros(len(first)),
        ),
    ),
    "two modes 5 % apart": (
        "bimodal",
        lambda source, first: (
            np.where(orders(source, len(first)), 0.05, 0.0),
            np.zeros(len(first)),
        ),
    ),
    "3 % in every second block": (
        "order_effect",
        lambda source, first: (np.where(first, 0, 0.03), np.where(first, 0.03, 0)),
    ),
}


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


@pytest.mark.parametrize(
    "n",
    [
        30,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                60,
                120,
            )
        ),
    ],
)  # 20 rounds show a step in 8 of 10 runs
@pytest.mark.parametrize("name", DISTURBANCES)
def test_a_planted_disturbance_is_flagged(name: str, n: int) -> None:
    """In 0.8 % of runs of 30 rounds two modes fall together with the order, which is taken off."""
    flag, disturb = DISTURBANCES[name]
    assert share_raised(flag, disturb, n) >= 0.94


@pytest.mark.parametrize(
    "n",
    [
        60,
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in (
                30,
                120,
            )
        ),
    ],
)
@pytest.mark.parametrize(
    "course",
    [
        lambda at: 0.3 * at,
        lambda at: np.where(at < 0.5, 0, 0.2),
        lambda at: np.where(np.sin(60 * at) > 0, 0, 0.56),
    ],
    ids=["ramp", "step", "two speeds"],
)
def test_what_slows_both_sides_is_not_flagged(course: Callable[[Numbers], Numbers], n: int) -> None:
    shared = course(np.arange(n) / n)
    for flag in DIAGNOSTICS:
        assert share_raised(flag, lambda source, first: (shared, shared), n) <= 0.02


def test_planted_autocorrelation_is_flagged() -> None:
    def disturb(source: np.random.Generator, first: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        return autoregressive(source, len(first), rho=0.6, sigma=0.02), np.zeros(len(first))

    assert share_raised("autocorrelated", disturb, 120) >= 0.95


def test_without_a_baseline_planted_autocorrelation_is_flagged() -> None:
    source = np.random.default_rng(0)
    runs = [np.exp(autoregressive(source, 120, rho=0.6, sigma=0.02)) for _ in range(200)]
    flags = [diagnostics.flags(run, None, None) for run in runs]
    assert np.mean(["autocorrelated" in each for each in flags]) >= 0.95


def test_noise_shared_by_a_pair_is_not_flagged_as_autocorrelation() -> None:
    source = np.random.default_rng(0)
    pace = [np.exp(autoregressive(source, 60, rho=0.8, sigma=0.02)) for _ in range(200)]
    runs = [shared * source.lognormal(0, 0.005, (2, 60)) for shared in pace]
    flags = [diagnostics.flags(case, base, orders(source, 60)) for case, base in runs]
    assert np.mean(["autocorrelated" in each for each in flags]) <= 0.02


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


BUDGET = replace(made_up_records.BUDGET, warmup_min_s=0.0, warmup_max_s=0.0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case_alone", [True, False])
def test_a_ramp_is_flagged_where_it_changes_the_ratio(seed: int, case_alone: bool) -> None:
    machine = constant if case_alone else _ramp
    device = SimulatedDevice(slowdown=machine)
    noises = [normal_noise(2 * seed + i, 0.005) for i in range(2)]

    def of_case() -> float:
        return noises[0]() * (_ramp(device.now_s) if case_alone else 1.0)

    steps = [step(device, (1e-5, 4e-5), scale=scale) for scale in (of_case, noises[1])]
    played = play_pairs(steps[0], steps[1], device, BUDGET, seed, (5e-5, 5e-5))
    flags = diagnostics.flags(
        played.latency_rounds_s, played.baseline_latency_rounds_s, played.case_ran_first
    )
    assert ("drift" in flags) == case_alone
    assert case_alone or flags == ()


def _ramp(now_s: float) -> float:
    """3 % in all, as the rounds take about 0.05 s."""
    return 1 + 0.6 * now_s


def constant(now_s: float) -> float:
    return 1.0


@pytest.mark.parametrize("seed", range(2))
def test_rounds_with_load_in_every_second_block_are_flagged(seed: int) -> None:
    device, calls = SimulatedDevice(), count()
    noise = normal_noise(seed, 0.005)

    def slower_in_second_block() -> float:
        # blocks of a call of the other step, three untimed calls and a timed one
        return noise() * (1.03 if next(calls) % 10 >= 5 else 1.0)

    steps = [step(device, (1e-3, 0.0), scale=slower_in_second_block) for _ in range(2)]
    played = play_pairs(steps[0], steps[1], device, BUDGET, seed, (1e-3, 1e-3))
    flags = diagnostics.flags(
        played.latency_rounds_s, played.baseline_latency_rounds_s, played.case_ran_first
    )
    assert "order_effect" in flags


def test_flags_come_in_the_order_of_the_table() -> None:
    first = np.arange(120) % 2 == 0
    second = np.arange(120) >= 60
    case = np.exp(np.where(second, 0.2, 0) + np.where(first, 0, 0.05))
    flags = diagnostics.flags(case, np.ones(120), first)
    assert flags == ("drift", "autocorrelated", "bimodal", "order_effect")
    assert flags == tuple(DIAGNOSTICS)


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
        ({"cpu_wait_s": 0.019}, False),
        ({"cpu_wait_s": 0.021}, True),  # 1 % of 2 s is 0.02 s
        # The idle time of each core is uncertain by 0.01 s.
        ({"others_cpu_s": 0.21}, False),
        ({"others_cpu_s": 0.23}, True),  # of 2 cores 5 % is 0.1 core: 0.2 s in 2 s
        ({"others_cpu_s": 0.20, "machine_cores": 1}, False),  # never less than 0.1 core
        ({"others_cpu_s": 7.0, "machine_cores": 64}, False),  # 5 % of 64 are 3.2 cores
        ({"others_cpu_s": 7.1, "machine_cores": 64}, True),
        ({"cgroup_throttled_s": 0.019}, False),
        ({"cgroup_throttled_s": 0.021}, True),
        ({"watched_s": 1.0}, False),
        ({"watched_s": 0.25}, True),  # the same counts in less time are more
    ],
    ids=str,
)
def test_contention_begins_at_its_thresholds(changes: dict[str, float], expected: bool) -> None:
    assert contended(replace(QUIET, **changes)) is expected  # type: ignore[arg-type]


def test_unknown_counts_are_not_contention() -> None:
    nothing = Contention()
    assert not contended(nothing)
    assert not contended(replace(nothing, watched_s=2.0))
    assert contended(replace(nothing, watched_s=2.0, cpu_wait_s=1.0))


@pytest.mark.parametrize(("processes", "expected"), [(None, False), (0, False), (1, True)])
def test_other_processes_on_the_gpu_are_contention(processes: int | None, expected: bool) -> None:
    assert contended(QUIET, processes) is expected


GHZ = 1e9


@pytest.mark.parametrize(
    ("clocks_ghz", "expected"),
    [
        ((2.0, 2.0, 2.0), False),
        ((2.0, 1.95, 1.95), False),  # 2.5 % lower
        ((2.0, 1.93, 2.0), True),  # 3.5 % lower, if only for a while
        ((2.0, 2.0, 1.93), True),
        ((1.2, 1.98, 1.98), False),  # the clock rose from idle
        ((1.2, 1.98, 1.9), True),  # rose from idle and fell: the first reading is ignored
        ((2.0, 1.96, 1.92), True),  # 4 % lower in two steps
        ((2.0,), False),
        ((), False),
        (None, False),
    ],
)
def test_a_clock_rate_that_falls_by_3_percent_is_throttled(
    clocks_ghz: tuple[float, ...] | None, expected: bool
) -> None:
    assert CLOCK_FALL == 0.03
    clocks_hz = None if clocks_ghz is None else tuple(each * GHZ for each in clocks_ghz)
    assert throttled(clocks_hz, None) is expected
    assert throttled(clocks_hz, ()) is expected
    assert throttled(clocks_hz, ("sw_power_cap",))
