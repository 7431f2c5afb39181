"""Host, device and pipeline against times worked out by hand, on simulated time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench import clocks
from bench.clocks import Clocks
from bench.devices import Step
from bench.records import Budget
from bench.testbed.simulated import SimulatedDevice, step, synchronising_step
from bench.timers import GATE_TRIES, Timing

BUDGET = Budget(
    name="standard",
    rank=2,
    warmup_min_s=0.05,
    warmup_max_s=1.0,
    block_s=1e-3,
    pilot_rounds=12,
    min_rounds=20,
    max_rounds=240,
    half_width=0.005,
    timed_max_s=1e4,
    clock_rounds=6,
)

Build = Callable[[SimulatedDevice], Step]


def device_bound(device: SimulatedDevice) -> Step:
    return step(device, (0.5, 3.0))


def host_bound(device: SimulatedDevice) -> Step:
    return step(device, (3.0, 0.5))


def overlapping(device: SimulatedDevice) -> Step:
    """Launches at 0.5 and 1.0; executes 0.5 to 1.5 and 1.5 to 2.5: the second launch is hidden."""
    return step(device, (0.5, 1.0), (0.5, 1.0))


def trailing_host_work(device: SimulatedDevice) -> Step:
    """Executes 0.5 to 1.0 while the host goes on until 2.5."""
    return step(device, (0.5, 0.5), (2.0, 0.0))


EXPECTED: dict[Build, tuple[float, float, float, float]] = {  # latency, host, device, pipelined
    device_bound: (3.5, 0.5, 3.0, 3.0),
    host_bound: (3.5, 3.0, 0.5, 3.0),
    overlapping: (2.5, 1.0, 2.0, 2.0),
    trailing_host_work: (2.5, 2.5, 0.5, 2.5),
}


def read(
    call: Step, device: SimulatedDevice, latency_s: float, seed: int = 0, **budget: Any
) -> Clocks:
    return clocks.read(call, device, replace(BUDGET, **budget), seed, latency_s)


@pytest.mark.parametrize("build", EXPECTED, ids=lambda build: build.__name__)
def test_a_device_with_a_queue(build: Build) -> None:
    latency_s, host_s, device_s, pipelined_s = EXPECTED[build]
    device = SimulatedDevice()
    found = read(build(device), device, latency_s)
    assert found.host_s == pytest.approx([host_s] * 6)
    assert found.device_s == pytest.approx([device_s] * 6)
    assert found.pipelined_s == pytest.approx([pipelined_s] * 6)
    assert found.device_note is None


def test_a_step_that_waits_for_its_result_has_no_device_time() -> None:
    device = SimulatedDevice()
    found = read(synchronising_step(device, 0.5, 3.0), device, 3.5)
    assert found.host_s == pytest.approx([3.5] * 6)
    assert found.pipelined_s == pytest.approx([3.5] * 6)
    assert found.device_s is None
    assert found.device_note is not None
    assert found.device_note.startswith("the device started before all 1 calls were issued")
    assert "the step waits for the device itself" in found.device_note


def test_a_device_without_a_queue_does_it_all_on_the_host() -> None:
    device = SimulatedDevice(queues=False)
    found = read(device_bound(device), device, 3.5)
    assert found.host_s == pytest.approx([3.5] * 6)
    assert found.pipelined_s == pytest.approx([3.5] * 6)
    assert found.device_s is None
    assert found.device_note == (
        "this device does not queue work, so no work runs apart from the host"
    )
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert device.holds_s == []


@pytest.mark.parametrize(
    ("depth", "fitting", "wanted"),
    [
        (1000, 56, 56),  # 500 us of 9 us each
        (54, 50, 56),  # 500 us of 10 us each, the latency; then there is no room for 56
        (50, 12, 50),  # 50 calls do not fit: the hold takes a place
        (12, 3, 50),
        (3, 1, 50),
    ],
)
def test_fewer_calls_are_queued_until_they_fit(depth: int, fitting: int, wanted: int) -> None:
    device = SimulatedDevice(depth=depth)
    found = read(step(device, (1e-6, 9e-6)), device, 1e-5)
    assert found.device_s == pytest.approx([9e-6] * 6)
    assert found.device_note is None
    assert (found.device_calls, found.device_calls_wanted) == (fitting, wanted)
    assert device.holds_s[-6:] == pytest.approx([1.5 * 1e-6 * fitting + 1e-4] * 6)


def test_a_queue_too_short_for_a_single_call() -> None:
    device = SimulatedDevice(depth=1)
    found = read(step(device, (1e-6, 9e-6)), device, 1e-5)
    assert found.device_s is None
    assert "its launches fill the queue" in str(found.device_note)
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert len(device.holds_s) == 4 * GATE_TRIES  # 50, 12, 3 calls and 1


def test_a_reading_of_the_clock_may_cost_time() -> None:
    """Blocks are made long enough: the two readings around a block weigh 1e-4 of it at most."""
    device = SimulatedDevice(queues=False, read_cost_s=1e-6)
    found = read(step(device, (1e-4, 0.0)), device, 1e-4)
    assert found.host_s == pytest.approx([1.01e-4] * 6)  # a sample has one reading in it
    assert found.pipelined_s == pytest.approx([1e-4] * 6)


@pytest.mark.parametrize("blocks", [1, 2, 20])
def test_as_many_blocks_of_each_as_the_budget_says(blocks: int) -> None:
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, clock_rounds=blocks)
    lengths = [len(found.host_s), len(found.pipelined_s), len(found.device_s)]
    assert lengths == [blocks] * 3


@pytest.mark.parametrize(("cap_s", "blocks"), [(1.0, 1), (30.0, 1), (80.0, 2), (1e4, 6)])
def test_a_slow_step_gets_fewer_blocks(cap_s: float, blocks: int) -> None:
    """Whether a call fits takes 21.25 s: five calls, then one behind a hold of 0.75 s.

    A round takes as long again, and 3.5 s for the host, and 3.5 and 6.5 s for the slope, and 3.5 s
    for an untimed call before each: 45.25 s.
    """
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, timed_max_s=cap_s)
    assert len(found.host_s) == len(found.pipelined_s) == len(found.device_s) == blocks
    assert device.now_s == pytest.approx(21.25 + 45.25 * blocks, abs=0.01)


def test_garbage_is_not_collected_while_reading() -> None:
    device = SimulatedDevice()
    seen: set[bool] = set()

    def observed() -> float:
        seen.add(gc.isenabled())
        return 1.0

    read(step(device, (0.5, 3.0), scale=observed), device, 3.5)
    assert seen == {False}
    assert gc.isenabled()


class Scripted:
    """Stands in for the timers: notes who is asked, and answers as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Timing) -> None:
        self.asked: list[str] = []
        self.answers = answers
        for timer in ("host", "pipelined", "device_time"):
            monkeypatch.setattr(clocks, timer, self._timer(timer))

    def _timer(self, name: str) -> Callable[..., Timing]:
        def timer(*arguments: Any) -> Timing:
            self.asked.append(name)
            return self.answers.get(name, Timing((1.0,)))

        return timer

    def rounds(self) -> list[tuple[str, ...]]:
        """Who was asked in each round, after the one question whether a call fits."""
        return list(zip(*(self.asked[1 + turn :: 3] for turn in range(3)), strict=True))


def test_the_clocks_take_turns_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: dict[int, list[tuple[str, ...]]] = {}
    for seed in (0, 0, 1):
        script = Scripted(monkeypatch)
        read(lambda: None, SimulatedDevice(), 1.0, seed=seed, clock_rounds=20)
        assert orders.get(seed) in (None, script.rounds())
        orders[seed] = script.rounds()
    for rounds in orders.values():
        assert {frozenset(each) for each in rounds} == {
            frozenset({"host", "pipelined", "device_time"})
        }
        assert len(set(rounds)) > 2
    assert orders[0] != orders[1]


def test_what_never_could_be_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, pipelined=Timing((), "noise"))
    found = read(lambda: None, SimulatedDevice(), 1.0)
    assert found.pipelined_s is None
    assert found.host_s == found.device_s == (1.0,) * 6


def test_a_queue_that_fits_once_and_never_again_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted(monkeypatch)
    answers = iter([Timing((1.0,))])
    monkeypatch.setattr(clocks, "device_time", lambda *_: next(answers, Timing((), "too late")))
    found = read(lambda: None, SimulatedDevice(), 1.0)
    assert found.device_s is None
    assert found.device_note == "too late"
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert len(script.asked) == 12


def test_slopes_without_a_duration_in_their_middle_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slopes = iter([-1e-3, 2e-3, -1e-3, -1e-3, 2e-3, -1e-3])
    monkeypatch.setattr(clocks, "pipelined", lambda *args: Timing((next(slopes),)))
    device = SimulatedDevice()
    assert read(device_bound(device), device, 3.5).pipelined_s is None
