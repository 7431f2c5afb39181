"""Paired rounds, on simulated time: pairs, order, when to stop, and the pace beside them."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from statistics import median

import pytest

from modescope.bench.devices.devices import CallSequence
from modescope.bench.records.columns.timing import Rounds
from modescope.bench.records.plans import Budget
from modescope.bench.stats import estimates as stats
from modescope.bench.timing.paired import play_pairs
from modescope.bench.timing.rounds import Interruptions
from tests.helpers.made_up_records import BUDGET
from tests.helpers.simulated import (
    Placements,
    Scale,
    SimulatedDevice,
    normal_noise,
    recording,
    step,
)

CALL_S = 50e-6


def race(
    device: SimulatedDevice,
    ratio: float,
    sigma: float = 0.0,
    seed: int = 0,
    budget: Budget = BUDGET,
) -> Rounds:
    """A case that is `ratio` times as fast as its baseline of 10 us launch and 40 us execution."""
    noise = [normal_noise(2 * seed + i, sigma) for i in range(2)]
    case = step(device, (1e-5 / ratio, 4e-5 / ratio), scale=noise[0])
    baseline = step(device, (1e-5, 4e-5), scale=noise[1])
    return play_pairs(case, baseline, device, budget, seed, (CALL_S, CALL_S))


def speedup(result: Rounds) -> float:
    ratio = stats.speedup(result.latency_rounds_s, result.baseline_latency_rounds_s)
    return ratio.value


def test_every_round_has_a_duration_of_each() -> None:
    device = SimulatedDevice(queues=False)
    case, baseline = step(device, (5e-6, 2e-5)), step(device, (1e-5, 4e-5))
    result = play_pairs(case, baseline, device, BUDGET, 0, (2.5e-5, 5e-5))
    assert result.latency_rounds_s == pytest.approx([2.5e-5] * 20)
    assert result.baseline_latency_rounds_s == pytest.approx([5e-5] * 20)
    assert result.calls_per_round == 40
    assert result.latency_calls_s == pytest.approx([2.5e-5] * 40 * 20)
    # per round 40 + 3 + 1 calls of the case, 20 + 3 + 1 of the baseline
    assert result.timed_s == pytest.approx(20 * (44 * 2.5e-5 + 24 * 5e-5))


def test_memory_is_placed_anew_for_every_block_only() -> None:
    device, log = SimulatedDevice(), list[str]()
    placements, work = Placements(log), recording(device, log, "s")
    looking = placements.needed_by(work)
    budget = replace(BUDGET, pilot_rounds=3, min_rounds=3, max_rounds=3)
    play_pairs(looking, looking, device, budget, 0, (1e-3, 1e-3), placements.redraw)
    assert "".join(log) == "|sssss" * 6
    assert not placements.held


def test_without_a_baseline_only_the_case_is_timed() -> None:
    device = SimulatedDevice()
    budget = replace(BUDGET, min_rounds=240)
    result = play_pairs(step(device, (1e-5, 4e-5)), None, device, budget, 0, (CALL_S,))
    assert result.latency_rounds_s == pytest.approx([CALL_S] * 240)
    assert result.baseline_latency_rounds_s is None
    assert result.case_ran_first is None
    assert result.pace_rounds_s is None
    assert (result.calls_per_round, len(result.latency_calls_s)) == (20, 4000)  # the most kept


def cycle(step_by: int, length: int) -> Scale:
    """Runs through 1 ... length (prime), `step_by` at a time."""
    calls = count()
    return lambda: 1.0 + next(calls) * step_by % length


def test_durations_are_paired_by_round() -> None:
    device = SimulatedDevice()
    case = step(device, (1.0, 0.0), scale=cycle(7, 11))
    baseline = step(device, (1.0, 0.0), scale=cycle(5, 13))
    budget = replace(BUDGET, max_rounds=20, timed_max_s=1e6)
    result = play_pairs(case, baseline, device, budget, 0, (6.0, 7.0))
    # Three calls of each per round; the third is timed, or the second where it comes first.
    of_case = [3 * i + 2 - first for i, first in enumerate(result.case_ran_first)]
    of_baseline = [3 * i + 1 + first for i, first in enumerate(result.case_ran_first)]
    assert result.latency_rounds_s == pytest.approx([1 + call * 7 % 11 for call in of_case])
    assert result.baseline_latency_rounds_s == pytest.approx(
        [1 + call * 5 % 13 for call in of_baseline]
    )


def second_of_two_blocks(now_s: float) -> float:
    return 1.02 if now_s % 2.1e-3 >= 1.05e-3 else 1.0


LOADS: dict[str, Callable[[float], float]] = {
    "ramp of 3 %": lambda now_s: 1 + 0.03 * min(now_s / 0.05, 1),
    "another clock speed": lambda now_s: 1.7 if now_s > 0.02 else 1.0,
    "period of two blocks": second_of_two_blocks,
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("seed", range(3))
def test_injected_load_moves_the_ratio_by_less_than_one_percent(load: str, seed: int) -> None:
    device = SimulatedDevice(slowdown=LOADS[load])
    assert speedup(race(device, 1.05, sigma=0.01, seed=seed)) == pytest.approx(1.05, rel=0.01)


def test_rounds_are_as_many_as_the_half_width_asks_for() -> None:
    quiet, noisy, wild = (
        race(SimulatedDevice(), 1.0, sigma=sigma, seed=4) for sigma in (0.001, 0.04, 1.0)
    )
    assert len(quiet.latency_rounds_s) == BUDGET.min_rounds
    assert BUDGET.min_rounds < len(noisy.latency_rounds_s) < BUDGET.max_rounds
    assert len(wild.latency_rounds_s) == BUDGET.max_rounds
    ratio = stats.speedup(noisy.latency_rounds_s, noisy.baseline_latency_rounds_s)
    assert math.log(ratio.high / ratio.low) / 2 == pytest.approx(0.005, rel=0.5)


def test_a_significant_difference_does_not_end_the_rounds() -> None:
    """Two of the three pilots exclude 1; all three need the same number of rounds."""
    (length,) = {
        len(race(SimulatedDevice(), ratio, sigma=0.06, seed=2).latency_rounds_s)
        for ratio in (0.5, 1.0, 2.0)
    }
    assert length > BUDGET.min_rounds


@pytest.mark.parametrize(("ratio", "stopped"), [(0.5, True), (0.79, False), (1.5, False)])
def test_a_clear_loss_is_measured_as_coarsely_as_the_budget_allows(
    ratio: float, stopped: bool
) -> None:
    coarse = replace(BUDGET, slow_half_width=0.05)
    whole, result = (race(SimulatedDevice(), ratio, 0.06, 2, each) for each in (BUDGET, coarse))
    assert (whole.stopped_early, result.stopped_early) == (False, stopped)
    assert len(whole.latency_rounds_s) > BUDGET.min_rounds
    expected = BUDGET.min_rounds if stopped else len(whole.latency_rounds_s)
    assert len(result.latency_rounds_s) == expected


def test_the_ratio_of_a_clear_loss_lies_in_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 0.79 about half of the pilots end the rounds: the choice must not bias the interval."""
    monkeypatch.setattr(gc, "collect", lambda: 0)
    budget = replace(BUDGET, block_s=2e-4, max_rounds=30, half_width=1e-9, slow_half_width=0.05)
    runs = [race(SimulatedDevice(), 0.79, 0.02, seed, budget) for seed in range(500)]
    estimates = [stats.speedup(run.latency_rounds_s, run.baseline_latency_rounds_s) for run in runs]
    inside = [each.low < 0.79 < each.high for each in estimates]
    assert 100 < sum(bool(run.stopped_early) for run in runs) < 400
    assert 0.93 <= sum(inside) / 500 <= 0.98
    assert {stats.verdict(each) for each in estimates} == {"slower"}


@pytest.mark.parametrize(("timed_max_s", "rounds"), [(0.01, 12), (0.001, 4)])
def test_slow_step_still_gets_its_pilot(timed_max_s: float, rounds: int) -> None:
    """12 rounds take 27 ms, 4 rounds 9 ms; the pilot may last ten times the cap."""
    budget = replace(BUDGET, timed_max_s=timed_max_s)
    result = race(SimulatedDevice(), 1.0, sigma=0.5, budget=budget)
    assert len(result.latency_rounds_s) == rounds


def test_the_cap_holds_if_the_machine_slows_down_after_the_pilot() -> None:
    device = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s < 0.05 else 5.0)
    result = race(device, 1.0, sigma=1.0, budget=replace(BUDGET, timed_max_s=0.5))
    assert 0.4 < result.timed_s <= 0.52  # the next round is expected to last as the one before


SERIES_S = [1e-3 * length for length in range(1, 17)] * 10  # 1.36 s a series


def two_speeds(now_s: float) -> float:
    """Half as fast for 1.3 s of every 4 s."""
    return 2.0 if math.fmod(now_s, 4.0) < 1.3 else 1.0


@pytest.mark.parametrize("queues", [True, False])
def test_series_take_turns_so_that_both_have_the_same_pace(queues: bool) -> None:
    device = SimulatedDevice(queues, slowdown=two_speeds)
    case, baseline = (
        CallSequence(tuple(step(device, (0.0, factor * each)) for each in SERIES_S))
        for factor in (1, 1.25)
    )
    budget = replace(BUDGET, pilot_rounds=12, max_rounds=12, timed_max_s=1e9)
    rounds = play_pairs(case, baseline, device, budget, 0, (1.36, 1.7))
    pairs = zip(rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, strict=True)
    ratios = [theirs / ours for ours, theirs in pairs]
    assert ratios == pytest.approx([1.25] * 12, rel=0.03)  # as a whole up to 39 % off
    assert median(ratios) == pytest.approx(1.25, rel=0.015)


SLICE_S = 20e-3  # of another program

SHORT = replace(BUDGET, block_s=1e-3, max_rounds=120, timed_max_s=5.0)


def busy_race(ratio: float, seed: int, share: float, call_s: float = 2e-3) -> Rounds:
    """A case `ratio` times as fast as its baseline, and a time slice in a `share` of the calls."""
    device, source, taken = SimulatedDevice(queues=False), random.Random(seed), [0]

    def work(length_s: float) -> Callable[[], None]:
        def call() -> None:
            device.launch(length_s * source.lognormvariate(0.0, 0.03), 0.0)
            if source.random() < share:
                taken[0] += 1
                device.launch(SLICE_S * source.uniform(0.7, 1.3), 0.0)

        return call

    watch = Interruptions(switches=lambda: taken[0])
    sides = work(call_s / ratio), work(call_s)
    return play_pairs(*sides, device, SHORT, seed, (call_s / ratio, call_s), watch=watch)


def told(result: Rounds) -> stats.Estimate:
    ratio = stats.speedup(
        result.latency_rounds_s, result.baseline_latency_rounds_s, result.case_ran_first
    )
    assert ratio is not None
    return ratio


@pytest.mark.parametrize("ratio", [0.8, 1.0, 1.1, 1.4])
def test_rounds_that_a_time_slice_falls_into_are_left_out(ratio: float) -> None:
    for seed in range(25):
        result = busy_race(ratio, seed, 0.3)
        estimate = told(result)
        right = {"inconclusive", "faster" if ratio > 1 else "slower" if ratio < 1 else "equivalent"}
        assert stats.verdict(estimate) in right
        assert estimate.value == pytest.approx(ratio, rel=0.1)
        assert not stats.is_wide(estimate)
        assert result.rounds_left_out
        assert len(result.latency_rounds_s or ()) >= SHORT.pilot_rounds
        assert len(result.latency_rounds_s or ()) == len(result.case_ran_first or ())


def test_where_most_rounds_are_interrupted_all_are_kept() -> None:
    result = busy_race(1.4, 0, 0.9)
    assert result.rounds_left_out == 0
    assert len(result.latency_rounds_s or ()) >= SHORT.pilot_rounds
    assert busy_race(1.4, 0, 0.0).rounds_left_out == 0
