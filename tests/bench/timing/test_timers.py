"""Every timer against times worked out by hand, and the costs of measuring, on simulated time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from modescope.bench.devices.devices import Cpu, Device, Prepared, Step
from modescope.bench.timing import timers
from modescope.bench.timing.timers import calibrate
from tests.helpers.simulated import (
    SimulatedDevice,
    settling,
    spikes,
    step,
    synchronising_step,
)
from tests.helpers.simulated_steps import KNOWN, device_bound, host_bound

CALLS = 4


TIMERS: dict[str, Callable[[Step, Device, int], timers.Timing]] = {
    "latency_s": timers.latency,
    "host_s": timers.host,
    "device_s": timers.device_time,
    "pipelined_s": timers.pipelined,
}


@pytest.mark.parametrize("build", KNOWN, ids=lambda build: build.__name__)
@pytest.mark.parametrize("index", range(4), ids=list(TIMERS))
def test_each_timer_on_a_device_with_a_queue(
    build: Callable[[SimulatedDevice], Step], index: int
) -> None:
    device = SimulatedDevice()
    timing = list(TIMERS.values())[index](build(device), device, CALLS)
    assert timing.reason is None
    assert timing.samples_s
    assert timing.samples_s == pytest.approx([KNOWN[build][index]] * len(timing.samples_s))


@pytest.mark.parametrize("name", ["latency_s", "host_s", "pipelined_s"])
def test_without_a_queue_all_work_is_on_the_host(name: str) -> None:
    device = SimulatedDevice(queues=False)
    assert TIMERS[name](device_bound(device), device, CALLS).median_s == pytest.approx(3.5)


def test_without_a_queue_there_is_no_device_time() -> None:
    device = SimulatedDevice(queues=False)
    timing = timers.device_time(device_bound(device), device, CALLS)
    assert timing.median_s is None
    assert timing.reason == "this device does not queue work, so it has no time apart from the host"


@pytest.mark.parametrize("name", TIMERS)
def test_work_left_in_the_queue_is_not_counted(name: str) -> None:
    device = SimulatedDevice()
    call = device_bound(device)
    clean = TIMERS[name](call, device, CALLS)
    device.launch(0.0, 1000.0)
    assert TIMERS[name](call, device, CALLS).samples_s == pytest.approx(clean.samples_s)


def test_host_time_starts_each_call_on_an_empty_queue() -> None:
    """A queue of one: a launch behind an unfinished one would wait 3 s for room."""
    device = SimulatedDevice(depth=1)
    timing = timers.host(device_bound(device), device, CALLS)
    assert timing.samples_s == pytest.approx([0.5] * CALLS)


@pytest.mark.parametrize("name", TIMERS)
def test_timers_leave_the_queue_empty(name: str) -> None:
    device = SimulatedDevice()
    TIMERS[name](device_bound(device), device, CALLS)
    before_s = device.now_s
    device.synchronize()
    assert device.now_s == before_s


@pytest.mark.parametrize("timer", [timers.latency, timers.host])
def test_samples_are_single_calls_in_order(timer: Callable[..., timers.Timing]) -> None:
    device = SimulatedDevice(queues=False)
    call = step(device, (1.0, 0.0), scale=settling(2, 5.0))
    assert timer(call, device, CALLS).samples_s == pytest.approx((5.0, 5.0, 1.0, 1.0))


def test_the_median_ignores_a_spike() -> None:
    assert timers.Timing((1.0, 1.0, 1.0, 1.0, 90.0)).median_s == 1.0


@pytest.mark.parametrize("timer", [timers.latency, timers.host])
def test_a_call_includes_one_reading_of_the_clock(timer: Callable[..., timers.Timing]) -> None:
    device = SimulatedDevice(read_cost_s=0.01)
    call = step(device, (1.0, 0.0))
    assert timer(call, device, CALLS).samples_s == pytest.approx([1.01] * CALLS)


def test_the_first_hold_is_longer_than_issuing() -> None:
    device = SimulatedDevice()
    timers.device_time(host_bound(device), device, CALLS, host_s=3.0)
    assert device.holds_s == [pytest.approx(1.5 * 3.0 * CALLS, abs=0.01)]


def test_a_short_hold_is_lengthened() -> None:
    """Issuing takes 12 ms. Holds of 1.06, 4.24 and 17 ms: a reading under the first two is not
    the device's time but the host's."""
    device = SimulatedDevice()
    call = step(device, (3e-3, 0.5e-3))
    timing = timers.device_time(call, device, CALLS, host_s=0.16e-3)
    assert device.holds_s == pytest.approx([1.06e-3, 4.24e-3, 16.96e-3])
    assert timing.samples_s == pytest.approx((0.5e-3,))


def test_a_step_of_seconds_is_not_held_for_minutes() -> None:
    device = SimulatedDevice()
    timing = timers.device_time(synchronising_step(device, 0.5, 3.0), device, CALLS, host_s=3.5)
    assert device.holds_s == pytest.approx([21.0, 84.0], abs=0.01)
    assert timing.samples_s == ()


@pytest.mark.parametrize("name", ["synchronises", "fills_queue"])
def test_a_step_that_cannot_be_isolated_has_no_device_time(name: str) -> None:
    device = SimulatedDevice(depth=3)
    call = {
        "synchronises": synchronising_step(device, 0.5, 3.0),
        "fills_queue": step(device, (0.1, 0.6), (0.1, 0.6)),
    }[name]
    timing = timers.device_time(call, device, CALLS)
    assert timing.samples_s == ()
    assert timing.median_s is None
    assert timing.reason is not None
    assert "started before all 4 calls were issued" in timing.reason
    assert len(device.holds_s) >= 2


def test_negative_slopes_are_kept() -> None:
    """Four calls take 9 s each, the eight after them 1 s: -7 s per further call."""
    device = SimulatedDevice()
    timing = timers.pipelined(step(device, (1.0, 0.0), scale=settling(CALLS, 9.0)), device, CALLS)
    assert timing.samples_s == pytest.approx((-7.0,))


def test_without_a_queue_pipelined_blocks_are_short_ones() -> None:
    device = SimulatedDevice(queues=False)
    call = step(device, (1.0, 0.0), scale=settling(CALLS, 9.0))
    samples_s = timers.pipelined(call, device, timers.SHORT_BLOCKS * CALLS).samples_s
    assert samples_s == pytest.approx((9.0, 1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize(("calls", "blocks"), [(1, 1), (3, 3), (5, 5), (9, 5)])
def test_few_calls_make_fewer_pipelined_blocks(calls: int, blocks: int) -> None:
    device = SimulatedDevice(queues=False)
    assert timers.pipelined(step(device, (1.0, 0.0)), device, calls).samples_s == (1.0,) * blocks


@pytest.mark.parametrize("queues", [True, False])
def test_the_length_of_a_pipelined_timing_is_known(queues: bool) -> None:
    device = SimulatedDevice(queues)
    timers.pipelined(step(device, (1.0, 0.0)), device, CALLS)
    assert device.now_s == CALLS * timers.pipelined_blocks(device)


def test_the_pipelined_time_withstands_an_interrupted_block() -> None:
    """The first call of the first block takes 90 s."""
    device = SimulatedDevice(queues=False)
    call = step(device, (1.0, 0.0), scale=settling(1, 90.0))
    timing = timers.pipelined(call, device, timers.SHORT_BLOCKS * CALLS)
    assert len(timing.samples_s) == timers.SHORT_BLOCKS == 5
    assert max(timing.samples_s) == pytest.approx((90.0 + 3.0) / CALLS)
    assert timing.median_s == pytest.approx(1.0)


def test_the_cost_of_reading_the_clock() -> None:
    assert timers.reading_cost(SimulatedDevice(read_cost_s=4e-8).clock) == pytest.approx(4e-8)


def test_reading_cost_survives_an_interruption() -> None:
    device = SimulatedDevice(read_cost_s=4e-8)
    interrupt = spikes(seed=0, share=1e-4, factor=1e5)

    def clock() -> float:
        device.now_s += 4e-8 * (interrupt() - 1)
        return device.clock()

    assert timers.reading_cost(clock) == pytest.approx(4e-8)


def test_cost_of_a_synchronise_with_nothing_to_wait_for() -> None:
    device = SimulatedDevice(read_cost_s=4e-8)
    device.launch(0.0, 3.0)
    wait = device.synchronize

    def asks_the_driver() -> None:
        device.now_s += 5e-6
        wait()

    device.synchronize = asks_the_driver
    assert timers.synchronize_cost(device) == pytest.approx(5.04e-6)  # and the reading after it


@pytest.mark.parametrize(
    ("block_s", "per_call_s", "timer_cost_s", "calls"),
    [
        (1e-3, 55e-6, 4e-8, 19),  # 18.2 calls fill the block
        (1e-3, 2.0, 4e-8, 1),
        (1e-3, 1e-4, 1e-6, 100),  # 1e4 readings of 1 us: 10 ms
        (1e-3, 0.0, 5e-8, 20_000),  # a call is taken to last a reading
        (0.0, 1.0, 0.0, 1),
    ],
)
def test_the_calls_that_fill_a_duration(
    block_s: float, per_call_s: float, timer_cost_s: float, calls: int
) -> None:
    assert timers.calls_for(block_s, per_call_s, timer_cost_s) == calls


@pytest.mark.parametrize("per_call_s", [0.0, float("nan")])
def test_calls_for_raises_where_neither_call_nor_clock_takes_time(per_call_s: float) -> None:
    with pytest.raises(ValueError, match="one of them must be positive"):
        timers.calls_for(1e-3, per_call_s, 0.0)


PREPARING_S = 5.0


def shrinking(device: SimulatedDevice) -> Prepared:
    """3.5 s after its preparation of 5 s on host and device; each further call takes half."""
    left = [1.0]

    def prepare() -> None:
        device.launch(PREPARING_S, PREPARING_S)
        left[0] = 1.0

    def call() -> None:
        device.launch(0.5 * left[0], 3.0 * left[0])
        left[0] /= 2

    return Prepared(prepare, call)


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("name", ["latency_s", "host_s"])
def test_what_a_call_needs_is_done_before_each_one_and_not_timed(name: str, queues: bool) -> None:
    device = SimulatedDevice(queues=queues)
    timing = TIMERS[name](shrinking(device), device, CALLS)
    expected_s = 0.5 if queues and name == "host_s" else 3.5
    assert timing.samples_s == pytest.approx([expected_s] * CALLS)


@pytest.mark.parametrize("queues", [True, False])
def test_calls_that_need_a_preparation_are_not_timed_in_a_row(queues: bool) -> None:
    device = SimulatedDevice(queues=queues)
    timing = timers.pipelined(shrinking(device), device, CALLS)
    assert (timing.samples_s, timing.reason) == ((), timers.NOT_IN_A_ROW)


def test_calls_that_need_a_preparation_cannot_be_queued() -> None:
    device = SimulatedDevice()
    timing = timers.device_time(shrinking(device), device, CALLS)
    assert (timing.samples_s, timing.reason) == ((), timers.NOT_IN_A_ROW)


def test_calibration_finds_planted_costs() -> None:
    device = SimulatedDevice(read_cost_s=4e-8, mark_s=1.5e-6)
    found = calibrate(device)
    assert found.synchronize_s == pytest.approx(4e-8)  # only the reading that ends it
    assert found.empty_step_s == pytest.approx(4e-8)
    assert found.event_interval_s == pytest.approx(1.5e-6)


class SlowToSynchronise(SimulatedDevice):
    """A synchronise takes 5 us of the host's time, whether or not there is work."""

    def _join(self) -> None:
        super()._join()
        self.now_s += 5e-6


def test_an_empty_step_costs_a_synchronise() -> None:
    """It is timed like every call, so it includes what the harness adds to a latency."""
    device = SlowToSynchronise(read_cost_s=4e-8)
    assert timers.empty_step(device) == pytest.approx(5e-6 + 4e-8)


@pytest.mark.parametrize("mark_s", [0.0, 2e-6])
def test_marks_are_read_behind_a_held_device(mark_s: float) -> None:
    """The host takes far longer to record a mark than the device to reach it."""
    device = SimulatedDevice(mark_s=mark_s)
    put_down = device.mark

    def slowly() -> object:
        device.now_s += 1e-4
        return put_down()

    device.mark = slowly  # type: ignore[method-assign, assignment]
    assert timers.event_interval(device) == pytest.approx(mark_s)
    assert device.holds_s == [timers.MARKS_HOLD_S]


def test_marks_on_a_short_queue_give_no_interval() -> None:
    """A queue so short that the host waits for the device with every mark."""
    device = SimulatedDevice(mark_s=2e-6, depth=3)
    assert timers.event_interval(device) is None


def test_earlier_work_in_the_queue_does_not_affect_calibration() -> None:
    device = SimulatedDevice(mark_s=2e-6)
    device.launch(0.0, 1000.0)
    assert timers.event_interval(device) == pytest.approx(2e-6)
    device.synchronize()
    assert device.now_s < 1001.0


def test_a_device_without_a_queue_has_no_marks() -> None:
    device = SimulatedDevice(queues=False, read_cost_s=4e-8)
    found = calibrate(device)
    assert found.event_interval_s is None
    assert found.empty_step_s == pytest.approx(4e-8)
    assert device.holds_s == []


def test_the_cost_of_an_empty_step_on_this_machine() -> None:
    """Far below the duration of any step."""
    found = calibrate(Cpu())
    assert 0 < found.empty_step_s < 1e-4
    assert found.event_interval_s is None
