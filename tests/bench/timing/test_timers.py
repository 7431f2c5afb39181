"""Every timer against times worked out by hand, and the costs of measuring, on simulated time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from modescope.bench.devices.devices import CallSequence, Device, Prepared, Step
from modescope.bench.timing import timers
from tests.helpers.simulated import SimulatedDevice, settling, spikes, step, synchronising_step

CALLS = 4

DEVICE_BOUND = (0.5, 3.0)  # host and device time of its launch, in seconds

TIMERS: dict[str, Callable[[Step, Device, int], timers.Timing]] = {
    "latency_s": timers.latency,
    "host_s": timers.host,
    "device_s": timers.device_time,
    "pipelined_s": timers.pipelined,
}


@pytest.mark.parametrize(
    ("launches", "expected_s"),  # in the order of TIMERS
    [
        ((DEVICE_BOUND,), (3.5, 0.5, 3.0, 3.0)),
        (((3.0, 0.5),), (3.5, 3.0, 0.5, 3.0)),
        # kernels from 0.5 to 1.5 s and from 1.5 to 2.5 s
        (((0.5, 1.0), (0.5, 1.0)), (2.5, 1.0, 2.0, 2.0)),
        # a kernel from 0.5 to 1.0 s, while the host works until 2.5 s
        (((0.5, 0.5), (2.0, 0.0)), (2.5, 2.5, 0.5, 2.5)),
    ],
    ids=["device", "host", "two kernels", "trailing host"],
)
def test_each_timer_on_a_device_with_a_queue(
    launches: Sequence[tuple[float, float]], expected_s: Sequence[float]
) -> None:
    device = SimulatedDevice()
    for timer, time_s in zip(TIMERS.values(), expected_s, strict=True):
        timing = timer(step(device, *launches), device, CALLS)
        assert timing.reason is None
        assert timing.samples_s
        assert timing.samples_s == pytest.approx([time_s] * len(timing.samples_s))


@pytest.mark.parametrize("name", TIMERS)
def test_work_left_in_the_queue_is_not_counted(name: str) -> None:
    device = SimulatedDevice()
    call = step(device, DEVICE_BOUND)
    clean = TIMERS[name](call, device, CALLS)
    device.launch(0.0, 1000.0)
    assert TIMERS[name](call, device, CALLS).samples_s == pytest.approx(clean.samples_s)
    ended_s = device.now_s
    device.synchronize()
    assert device.now_s == ended_s  # and none is left behind


def test_host_time_starts_each_call_on_an_empty_queue() -> None:
    """A queue of one: a launch behind an unfinished one would wait 3 s for room."""
    device = SimulatedDevice(depth=1)
    timing = timers.host(step(device, DEVICE_BOUND), device, CALLS)
    assert timing.samples_s == pytest.approx([0.5] * CALLS)


@pytest.mark.parametrize("timer", [timers.latency, timers.host])
def test_samples_are_single_calls_with_one_reading_of_the_clock(
    timer: Callable[..., timers.Timing],
) -> None:
    device = SimulatedDevice(queues=False, read_cost_s=0.01)
    call = step(device, (1.0, 0.0), scale=settling(2, 5.0))
    assert timer(call, device, CALLS).samples_s == pytest.approx((5.01, 5.01, 1.01, 1.01))


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
    assert timers.pipelined(call, device, 3).samples_s == pytest.approx((1.0,) * 3)


@pytest.mark.parametrize("queues", [True, False])
def test_the_length_of_a_pipelined_timing_is_known(queues: bool) -> None:
    device = SimulatedDevice(queues)
    timers.pipelined(step(device, (1.0, 0.0)), device, CALLS)
    assert device.now_s == CALLS * timers.pipelined_blocks(device)


def test_reading_cost_survives_an_interruption() -> None:
    device = SimulatedDevice(read_cost_s=4e-8)
    interrupt = spikes(seed=0, share=1e-4, factor=1e5)

    def clock() -> float:
        device.now_s += 4e-8 * (interrupt() - 1)
        return device.clock()

    assert timers.reading_cost(clock) == pytest.approx(4e-8)


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


@pytest.mark.parametrize("timer", [timers.pipelined, timers.device_time])
def test_calls_that_need_a_preparation_are_not_timed_in_a_row(
    timer: Callable[..., timers.Timing],
) -> None:
    device = SimulatedDevice()
    timing = timer(shrinking(device), device, CALLS)
    assert (timing.samples_s, timing.reason) == ((), timers.NOT_IN_A_ROW)


def test_each_call_of_a_series_is_waited_for() -> None:
    """Launching 1 ms while the device works 2 ms: 3 ms a call, not 2 for all but the first."""
    device = SimulatedDevice()
    calls = CallSequence((step(device, (1e-3, 2e-3)),) * 10)
    assert timers.latency(calls, device, 1).samples_s == pytest.approx([30e-3])
