"""Calls whose data are evicted before each: on simulated time, where evicting takes 30 s or so."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from modescope.bench.devices.devices import Evictor, Prepared, Step, evict_first
from modescope.bench.stats.estimates import Verdict, speedup, verdict
from modescope.bench.timing import alone, clock_rounds, timers
from modescope.bench.timing.comparison import FIRST_CALLS, warm_up
from modescope.bench.timing.paired import play_pairs
from tests.helpers.made_up_records import BUDGET
from tests.helpers.simulated import SimulatedDevice, normal_noise, step

CALLS = 4
EVICTION = (0.25, 30.0)  # host and device time of an eviction, in seconds
CALL = (0.5, 3.0)


def cold(device: SimulatedDevice, eviction: tuple[float, float] = EVICTION) -> Step:
    return evict_first(step(device, CALL), evictor(device, eviction))


def evictor(device: SimulatedDevice, eviction: tuple[float, float]) -> Evictor:
    return Evictor("made up", step(device, eviction), lambda: None, sum(eviction))


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize(
    ("timer", "expected_s"),
    [(timers.latency, 3.5), (timers.host, 0.5), (timers.device_time, 3.0)],
)
def test_no_timer_counts_an_eviction(
    timer: Callable[..., timers.Timing], expected_s: float, queues: bool
) -> None:
    device = SimulatedDevice(queues=queues)
    if not queues:
        expected_s = 3.5  # the host does all of it
        if timer is timers.device_time:
            assert not timer(cold(device), device, CALLS).samples_s
            return
    samples_s = timer(cold(device), device, CALLS).samples_s
    assert samples_s == pytest.approx([expected_s] * len(samples_s))
    assert samples_s


def test_an_eviction_ends_the_preparation() -> None:
    """What is put back before a call is written, and so would be in a cache."""
    events: list[str] = []

    def note(name: str) -> Step:
        return lambda: events.append(name)

    restored = Prepared(note("put back"), note("call"))
    evict_first(restored, Evictor("made up", note("evict"), lambda: None))()
    assert events == ["put back", "evict", "call"]


@pytest.mark.parametrize("queues", [True, False])
def test_cold_calls_are_not_timed_in_a_row(queues: bool) -> None:
    device = SimulatedDevice(queues=queues)
    timing = timers.pipelined(cold(device), device, CALLS)
    assert (timing.samples_s, timing.reason) == ((), timers.COLD)


def test_each_eviction_is_queued_before_the_mark_that_its_call_starts_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    device = SimulatedDevice()

    def noted(name: str, does: Callable[..., Any] = lambda: device.launch(0.01, 1.0)) -> Any:
        def call(*given: float) -> Any:
            events.append(name)
            return does(*given)

        return call

    monkeypatch.setattr(device, "mark", noted("mark", device.mark))
    monkeypatch.setattr(device, "hold", noted("hold", device.hold))
    evicted = evict_first(noted("call"), Evictor("made up", noted("evict"), lambda: None, 1.01))
    timers.device_time(evicted, device, 3, host_s=0.01)
    assert events == ["hold", *["evict", "mark", "call", "mark"] * 3]


@pytest.mark.parametrize("queues", [True, False])
def test_a_longer_eviction_makes_fewer_calls_and_no_other_times(queues: bool) -> None:
    """An eviction of half a call's time, and one of ten times that."""
    latencies_s, calls = list[float](), list[int]()
    for factor in (1.0, 10.0):
        device = SimulatedDevice(queues=queues, read_cost_s=1e-8)
        eviction = (1e-5 * factor, 1e-4 * factor)
        call = evict_first(step(device, (5e-5, 2e-4)), evictor(device, eviction))
        expected_s = warm_up([call], device, BUDGET).per_call_s * 2
        rounds = play_pairs(call, call, device, BUDGET, 0, expected_s)
        latencies_s += rounds.latency_rounds_s
        calls.append(rounds.calls_per_round)
    assert latencies_s == pytest.approx([2.5e-4] * len(latencies_s), rel=1e-3)
    assert calls[1] < calls[0]


LONG = (0.0, 0.1)  # an eviction as long as 400 calls, or a hundred blocks


def counted(device: SimulatedDevice) -> tuple[Step, list[None]]:
    """A call of 250 µs, and a list with an element for each of its long evictions."""
    evictions = list[None]()

    def evict() -> None:
        evictions.append(None)
        device.launch(*LONG)

    made = Evictor("made up", evict, lambda: None, sum(LONG))
    return evict_first(step(device, (5e-5, 2e-4)), made), evictions


def test_a_block_has_fewer_calls_if_their_evictions_are_long() -> None:
    """A block of 1 ms would have four calls, one of 300 ms 1200."""
    device: Any = SimulatedDevice(read_cost_s=1e-8)
    call, evictions = counted(device)
    warm_up([call], device, BUDGET)
    assert len(evictions) <= FIRST_CALLS + BUDGET.warmup_max_s / LONG[1] + 1
    clocks = clock_rounds._case_clocks(call, device, BUDGET, 2.5e-4, lambda: None)
    assert [clock.sides[0].calls for clock in clocks] == [1, 1, 1]
    evictions.clear()
    alone.read(call, device, BUDGET, 2.5e-4, None, lambda: None)
    assert len(evictions) <= 2 * 3 + FIRST_CALLS + 40


def test_the_queue_is_held_for_as_long_as_evictions_are_issued() -> None:
    device = SimulatedDevice()
    made = evictor(device, (0.5, 0.1))
    call = evict_first(step(device, (0.25, 2.0)), made)
    assert timers.device_time(call, device, 4).samples_s == pytest.approx([2.0])
    assert device.holds_s == pytest.approx([timers.HOLD_FACTOR * (0.25 + 0.6) * 4 + 1e-4])


def test_clocks_of_cold_calls() -> None:
    device = SimulatedDevice(read_cost_s=1e-8)
    call = evict_first(step(device, (5e-5, 2e-4)), evictor(device, (1e-5, 1e-3)))
    clocks = clock_rounds.read([call, call], device, BUDGET, 0, [2.5e-4] * 2)
    assert clocks.pipelined_note == timers.COLD
    assert clocks.device_rounds_s == pytest.approx([2e-4] * len(clocks.device_rounds_s or ()))
    assert clocks.host_rounds_s == pytest.approx([5e-5] * len(clocks.host_rounds_s or ()), rel=1e-2)


def verdicts(factor: float, studies: int) -> list[Verdict | None]:
    """Of a mode that is `factor` times as fast as its baseline, with noise of 3 % a call."""
    found = []
    for seed in range(studies):
        device = SimulatedDevice(queues=False)
        pair = [
            evict_first(
                step(device, (0.0, 1e-3 / f), scale=normal_noise(2 * seed + side, 0.03)),
                evictor(device, (2e-4 * random.Random(seed).uniform(0.5, 2), 0.0)),
            )
            for side, f in enumerate((factor, 1.0))
        ]
        rounds = play_pairs(pair[0], pair[1], device, BUDGET, seed, [1e-3 / factor, 1e-3])
        ratio = speedup(
            rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first
        )
        found.append(verdict(ratio))
    return found


def test_equal_cold_calls_get_no_verdict() -> None:
    told = [each for each in verdicts(1.0, 100) if each in (Verdict.FASTER, Verdict.SLOWER)]
    assert len(told) <= 5


def test_a_cold_call_that_is_five_percent_faster_is_seen() -> None:
    assert verdicts(1.05, 20).count(Verdict.FASTER) >= 19
