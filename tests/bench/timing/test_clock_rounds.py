"""All clocks in rounds against times worked out by hand, on simulated time."""

from __future__ import annotations

import gc
import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.devices.devices import Step
from modescope.bench.records.columns.timing import Clocks
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import clock_rounds, timers
from modescope.bench.timing.rounds import Clock, Side
from modescope.bench.timing.timers import GATE_TRIES, Timing
from tests.helpers import made_up_records
from tests.helpers.simulated import SimulatedDevice, normal_noise, step, synchronising_step

BUDGET = replace(made_up_records.BUDGET, timed_max_s=1e4, clock_rounds=6)


def read(
    call: Step,
    device: SimulatedDevice,
    latency_s: float,
    seed: int = 0,
    baseline: Step | None = None,
    others: Sequence[Clock] = (),
    **budget: Any,
) -> Clocks:
    steps = [call] if baseline is None else [call, baseline]
    expected_s = [latency_s] * len(steps)
    changed = replace(BUDGET, **budget)
    return clock_rounds.read(steps, device, changed, seed, expected_s, others=others)


def device_bound(device: SimulatedDevice) -> Step:
    return step(device, (0.5, 3.0))


def host_bound(device: SimulatedDevice) -> Step:
    return step(device, (3.0, 0.5))


def waits_for_its_result(device: SimulatedDevice) -> Step:
    return synchronising_step(device, 0.5, 3.0)


@pytest.mark.parametrize(
    ("case", "baseline", "host_s", "device_s", "baseline_device_s"),
    [
        (device_bound, host_bound, 0.5, 3.0, 0.5),
        (device_bound, waits_for_its_result, 0.5, 3.0, None),
        (waits_for_its_result, device_bound, 3.5, None, None),
    ],
)
def test_of_the_baseline_the_device_time_is_read(
    case: Callable[[SimulatedDevice], Step],
    baseline: Callable[[SimulatedDevice], Step],
    host_s: float,
    device_s: float | None,
    baseline_device_s: float | None,
) -> None:
    device = SimulatedDevice()
    found = read(case(device), device, 3.5, baseline=baseline(device))
    assert found.clocks_latency_rounds_s == pytest.approx([3.5] * 6)
    assert found.host_rounds_s == pytest.approx([host_s] * 6)
    for rounds_s, expected_s in (
        (found.device_rounds_s, device_s),
        (found.baseline_device_rounds_s, baseline_device_s),
    ):
        assert rounds_s == (None if expected_s is None else pytest.approx([expected_s] * 6))
    assert (found.device_note is None) == (device_s is not None)


def test_a_device_without_a_queue_has_all_work_on_the_host() -> None:
    device = SimulatedDevice(queues=False)
    found = read(device_bound(device), device, 3.5)
    for column in (found.clocks_latency_rounds_s, found.host_rounds_s, found.pipelined_rounds_s):
        assert column == pytest.approx([3.5] * 6)
    assert found.device_rounds_s is None
    assert "does not queue work" in found.device_note
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert device.holds_s == []


@pytest.mark.parametrize(
    ("depth", "fitting", "wanted"),
    [
        (1000, 56, 56),  # 500 us of 9 us each
        (54, 50, 56),  # 500 us of 10 us each, the latency; then there is no room for 56
        (50, 12, 50),  # 50 calls do not fit: the hold takes a place
        (1, None, None),
    ],
)
def test_fewer_calls_are_queued_until_they_fit(
    depth: int, fitting: int | None, wanted: int | None
) -> None:
    device = SimulatedDevice(depth=depth)
    found = read(step(device, (1e-6, 9e-6)), device, 1e-5)
    assert (found.device_calls, found.device_calls_wanted) == (fitting, wanted)
    if fitting is None:
        assert found.device_rounds_s is None
        assert "its launches fill the queue" in str(found.device_note)
        assert len(device.holds_s) == 4 * GATE_TRIES  # 50, 12, 3 calls and 1
    else:
        assert found.device_rounds_s == pytest.approx([9e-6] * 6)
        assert found.device_note is None
        assert device.holds_s[-6:] == pytest.approx([1.5 * 1e-6 * fitting + 1e-4] * 6)


@pytest.mark.parametrize(("queues", "calls"), [(True, 5 * 20 * 3), (False, 20)])
def test_pipelined_blocks_together_have_the_length_of_a_slope(queues: bool, calls: int) -> None:
    """Blocks of 1 ms hold 20 calls: a slope needs five and ten, five short ones one in all."""
    device = SimulatedDevice(queues=queues)
    made: list[str] = []
    work = step(device, (0.0, 5e-5))

    def call() -> None:
        made.append("call")
        work()

    read(call, device, 5e-5, clock_rounds=1)
    settled = 3 * (1 + 3)  # before a block of latency, host and pipelined
    of_device = 5 + 10 + (1 + 3 + 5 + 10) if queues else 0  # once to see whether they fit
    assert len(made) == settled + 20 + 20 + calls + of_device


def waits(device: SimulatedDevice, name: str, seconds: float, calls: int = 1) -> Clock:
    """A clock of the host's time of a step of its own."""
    return Clock(name, (Side(step(device, (seconds, 0.0)), timers.host, calls, 1),))


def test_position_i_of_each_column_is_round_i() -> None:
    """The machine becomes slower by about a tenth per round, and by less within a round."""
    device = SimulatedDevice(queues=False, slowdown=lambda now_s: 1 + 0.1 * now_s / 20)
    others = [waits(device, "dispatch", 1.0)]
    found = read(step(device, (1.0, 0.0)), device, 1.0, others=others)
    latency_s, empty_s = found.clocks_latency_rounds_s, found.dispatch_rounds_s
    assert latency_s[-1] > 1.2 * latency_s[0]
    for column in (found.host_rounds_s, found.pipelined_rounds_s, empty_s):
        assert column == pytest.approx(latency_s, rel=0.08)


@pytest.mark.parametrize(
    ("cap_s", "pilot", "rounds"),
    [(12.0, 6, 1), (13.0, 6, 2), (100.0, 2, 2), (200.0, 2, 3)],
)
def test_a_slow_step_gets_fewer_rounds(cap_s: float, pilot: int, rounds: int) -> None:
    """A pilot may take ten times the cap.

    Whether a call fits takes 21.25 s: five calls, then one behind a hold of 0.75 s.
    Each block follows two untimed calls, 6.5 s together. Then latency takes 3.5 s, the host 3.5 s,
    the slope 3.5 and 6.5 s, and device time 21.25 s again: 64.25 s in a round.
    """
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, timed_max_s=cap_s, pilot_rounds=pilot)
    columns = (found.clocks_latency_rounds_s, found.host_rounds_s, found.pipelined_rounds_s)
    assert {*map(len, columns), len(found.device_rounds_s)} == {rounds}
    assert device.now_s == pytest.approx(21.25 + 64.25 * rounds, abs=0.01)


def scripted(*seconds: float | None) -> Side:
    """A side with these times in successive rounds; None: it fails."""
    answers = iter(
        [Timing((), "too late") if each is None else Timing((each,)) for each in seconds]
    )
    return Side(lambda: None, lambda *_: next(answers), 1, 1)


@pytest.mark.parametrize(
    ("dispatch", "left", "rounds"),
    [
        ((1.0, None, 3.0, 4.0, None, 6.0), (1.0, 3.0, 4.0, 6.0), (1.0, 3.0, 4.0, 6.0)),
        ((1.0, 2.0, 3.0, None, None, None), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0)),
        ((1.0, 2.0, None, None, None, None), None, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
    ],
    ids=["two rounds", "half", "most"],
)
def test_a_round_in_which_a_clock_failed_is_left_out_unless_most_are(
    dispatch: tuple[float | None, ...], left: tuple[float, ...] | None, rounds: tuple[float, ...]
) -> None:
    """The baseline's time says which round it is."""
    other = Clock("dispatch", (scripted(*dispatch), scripted(*map(float, range(1, 7)))))
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, others=[other])
    assert (found.dispatch_rounds_s, found.baseline_dispatch_rounds_s) == (left, rounds)
    assert len(found.clocks_latency_rounds_s) == len(found.device_rounds_s) == len(rounds)


def test_a_device_time_of_zero_is_unknown_and_says_why() -> None:
    device = SimulatedDevice()
    found = read(step(device, (0.5, 0.0)), device, 0.5)
    assert (found.device_rounds_s, found.device_note) == (None, clock_rounds.TOO_SHORT)
    assert (found.device_calls, found.device_calls_wanted) == (None, None)


@pytest.mark.parametrize(
    ("timings", "note"),
    [
        ([Timing((-1e-3,)), Timing((2e-3,)), Timing((-1e-3,))], clock_rounds.TOO_NOISY),
        ([Timing((), "noise")], "noise"),
    ],
)
def test_a_pipelined_time_with_a_negative_median_is_unknown(
    monkeypatch: pytest.MonkeyPatch, timings: list[Timing], note: str
) -> None:
    slopes = itertools.cycle(timings)
    monkeypatch.setattr(timers, "pipelined", lambda *_: next(slopes))
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5)
    assert (found.pipelined_rounds_s, found.pipelined_note) == (None, note)
    assert found.host_rounds_s == pytest.approx([0.5] * 6)


# A machine that changes its pace

RATIO = 1.75
LATENCY_S, DISPATCH_S, GAIN = 2e-4, 6e-5, 1.25
SHARE = DISPATCH_S / LATENCY_S
SEEDS = range(170)  # of each machine


def two_speeds(seed: int, mean_s: float) -> Callable[[float], float]:
    """Alternates between two speeds, each of which lasts `mean_s` on average."""
    source, ends_s = random.Random(seed), [0.0]

    def slowdown(now_s: float) -> float:
        while ends_s[-1] <= now_s:
            ends_s.append(ends_s[-1] + source.expovariate(1 / mean_s))
        return RATIO if bisect_right(ends_s, now_s) % 2 else 1.0

    return slowdown


MACHINES: dict[str, Callable[[int], Callable[[float], float]]] = {
    "3 ms": lambda seed: two_speeds(seed, 3e-3),
    "100 ms": lambda seed: two_speeds(seed, 0.1),
    "ramp": lambda seed: lambda now_s: 1 + 0.75 * min(now_s / 0.2, 1),
    "step": lambda seed: lambda now_s: 1.0 if now_s < 0.07 else RATIO,
}
"""The slowdown of machines, given a seed; their rounds take about 0.2 s together."""


def derived(machine: str, seed: int) -> tuple[Estimate, Estimate]:
    """The share of dispatch, and by how much it is less than the baseline's."""
    device = SimulatedDevice(queues=False, slowdown=MACHINES[machine](seed))
    noise = normal_noise(seed, 0.02)
    call, empty, empty_baseline = (
        step(device, (each_s, 0.0), scale=noise)
        for each_s in (LATENCY_S, DISPATCH_S, GAIN * DISPATCH_S)
    )
    block_s = 5e-4
    sides = (
        Side(each, timers.host, timers.calls_for(block_s, each_s, 0.0), 3)
        for each, each_s in ((empty, DISPATCH_S), (empty_baseline, GAIN * DISPATCH_S))
    )
    others = [Clock("dispatch", tuple(sides))]
    found = read(call, device, LATENCY_S, seed, others=others, clock_rounds=24, block_s=block_s)
    share = estimates.ratio(found.dispatch_rounds_s, found.clocks_latency_rounds_s)
    gain = estimates.ratio(found.baseline_dispatch_rounds_s, found.dispatch_rounds_s)
    return share, gain


@pytest.mark.parametrize("machines", [["3 ms"], pytest.param([*MACHINES], marks=pytest.mark.full)])
def test_ratios_of_clocks_withstand_a_machine_that_changes_its_pace(
    machines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intervals of all machines together hold the truth as often as they say."""
    monkeypatch.setattr(gc, "collect", lambda: 0)  # takes 0.1 s with torch loaded
    held = []
    for machine, seed in itertools.product(machines, SEEDS):
        share, gain = derived(machine, seed)
        assert share.value == pytest.approx(SHARE, abs=0.02), (machine, seed)
        assert gain.value == pytest.approx(GAIN, rel=0.02), (machine, seed)
        held += [share.low <= SHARE <= share.high, gain.low <= GAIN <= gain.high]
    assert sum(held) / len(held) >= 0.935
