"""Host, device and pipeline against times worked out by hand, on simulated time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.devices.devices import Step
from modescope.bench.records.columns import Clocks
from modescope.bench.timing import further_clocks, timers
from modescope.bench.timing.timers import GATE_TRIES, Timing
from modescope.bench.tools.testbed.simulated import SimulatedDevice, step, synchronising_step
from tests.helpers import made_up_records
from tests.helpers.simulated_steps import KNOWN, device_bound

BUDGET = replace(made_up_records.BUDGET, timed_max_s=1e4, clock_rounds=6)


def read(
    call: Step, device: SimulatedDevice, latency_s: float, seed: int = 0, **budget: Any
) -> Clocks:
    return further_clocks.read(call, device, replace(BUDGET, **budget), seed, latency_s)


@pytest.mark.parametrize("build", KNOWN, ids=lambda build: build.__name__)
def test_each_clock_of_a_device_with_a_queue(build: Callable[[SimulatedDevice], Step]) -> None:
    latency_s, host_s, device_s, pipelined_s = KNOWN[build]
    device = SimulatedDevice()
    found = read(build(device), device, latency_s)
    assert found.host_rounds_s == pytest.approx([host_s] * 6)
    assert found.device_rounds_s == pytest.approx([device_s] * 6)
    assert found.pipelined_rounds_s == pytest.approx([pipelined_s] * 6)
    assert found.device_note is None


def test_a_step_that_waits_for_its_result_has_no_device_time() -> None:
    device = SimulatedDevice()
    found = read(synchronising_step(device, 0.5, 3.0), device, 3.5)
    assert found.host_rounds_s == pytest.approx([3.5] * 6)
    assert found.pipelined_rounds_s == pytest.approx([3.5] * 6)
    assert found.device_rounds_s is None
    assert found.device_note is not None
    assert found.device_note.startswith("the device started before all 1 calls were issued")
    assert "the step waits for the device itself" in found.device_note


def test_a_device_without_a_queue_has_all_work_on_the_host() -> None:
    device = SimulatedDevice(queues=False)
    found = read(device_bound(device), device, 3.5)
    assert found.host_rounds_s == pytest.approx([3.5] * 6)
    assert found.pipelined_rounds_s == pytest.approx([3.5] * 6)
    assert found.device_rounds_s is None
    assert found.device_note == (
        "this device does not queue work, so it has no time apart from the host"
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
    assert found.device_rounds_s == pytest.approx([9e-6] * 6)
    assert found.device_note is None
    assert (found.device_calls, found.device_calls_wanted) == (fitting, wanted)
    assert device.holds_s[-6:] == pytest.approx([1.5 * 1e-6 * fitting + 1e-4] * 6)


def test_a_queue_too_short_for_one_call_gives_no_device_time() -> None:
    device = SimulatedDevice(depth=1)
    found = read(step(device, (1e-6, 9e-6)), device, 1e-5)
    assert found.device_rounds_s is None
    assert "its launches fill the queue" in str(found.device_note)
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert len(device.holds_s) == 4 * GATE_TRIES  # 50, 12, 3 calls and 1


def test_blocks_are_long_enough_for_the_cost_of_reading_the_clock() -> None:
    """The two readings around a block take 1e-4 of it at most."""
    device = SimulatedDevice(queues=False, read_cost_s=1e-6)
    found = read(step(device, (1e-4, 0.0)), device, 1e-4)
    assert found.host_rounds_s == pytest.approx([1.01e-4] * 6)  # a sample has one reading in it
    assert found.pipelined_rounds_s == pytest.approx([1e-4] * 6)


@pytest.mark.parametrize("blocks", [1, 2, 20])
def test_every_clock_has_the_blocks_of_the_budget(blocks: int) -> None:
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, clock_rounds=blocks)
    lengths = [len(found.host_rounds_s), len(found.pipelined_rounds_s), len(found.device_rounds_s)]
    assert lengths == [blocks] * 3


@pytest.mark.parametrize(("cap_s", "blocks"), [(1.0, 1), (30.0, 1), (80.0, 2), (1e4, 6)])
def test_a_slow_step_gets_fewer_blocks(cap_s: float, blocks: int) -> None:
    """Whether a call fits takes 21.25 s: five calls, then one behind a hold of 0.75 s.

    A round takes as long again, and 3.5 s for the host, and 3.5 and 6.5 s for the slope, and 3.5 s
    for an untimed call before each: 45.25 s.
    """
    device = SimulatedDevice()
    found = read(device_bound(device), device, 3.5, timed_max_s=cap_s)
    assert (
        len(found.host_rounds_s)
        == len(found.pipelined_rounds_s)
        == len(found.device_rounds_s)
        == blocks
    )
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
    """Stands in for the timers: records their calls, and returns the scripted values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Timing) -> None:
        self.asked: list[str] = []
        self.answers = answers
        for timer in ("host", "pipelined", "device_time"):
            monkeypatch.setattr(timers, timer, self._timer(timer))

    def _timer(self, name: str) -> Callable[..., Timing]:
        def timer(*arguments: Any) -> Timing:
            self.asked.append(name)
            return self.answers.get(name, Timing((1.0,)))

        return timer

    def rounds(self) -> list[tuple[str, ...]]:
        """The timers called in each round, after the one call that finds whether a call fits."""
        return list(zip(*(self.asked[1 + turn :: 3] for turn in range(3)), strict=True))


def test_clocks_alternate_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_clock_never_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    Scripted(monkeypatch, pipelined=Timing((), "noise"))
    found = read(lambda: None, SimulatedDevice(), 1.0)
    assert found.pipelined_rounds_s is None
    assert found.host_rounds_s == found.device_rounds_s == (1.0,) * 6


def test_a_queue_that_fits_only_once_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Scripted(monkeypatch)
    answers = iter([Timing((1.0,))])
    monkeypatch.setattr(timers, "device_time", lambda *_: next(answers, Timing((), "too late")))
    found = read(lambda: None, SimulatedDevice(), 1.0)
    assert found.device_rounds_s is None
    assert found.device_note == "too late"
    assert (found.device_calls, found.device_calls_wanted) == (None, None)
    assert len(script.asked) == 12


def test_a_pipelined_time_with_a_negative_median_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slopes = iter([-1e-3, 2e-3, -1e-3, -1e-3, 2e-3, -1e-3])
    monkeypatch.setattr(timers, "pipelined", lambda *args: Timing((next(slopes),)))
    device = SimulatedDevice()
    assert read(device_bound(device), device, 3.5).pipelined_rounds_s is None
