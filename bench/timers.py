"""How long does a step take? One question per timer, one signature for all.

A timer takes a step, a device and a number of calls, and answers with a `Timing`. No timer asks
which device it is given.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, repeat

from bench.devices import Device, Step

Clock = Callable[[], float]

HOST_CALLS = 5  # enough for a median; sets only how long the queue is first held
HOLD_FACTOR = 1.5  # hold the queue for this many times as long as issuing is expected to take
HOLD_MARGIN_S = 1e-4  # and a little more: marks and the hold itself take host time, too
HOLD_GROWTH = 4.0
LONGEST_HOLD_S = 1.0  # a step of seconds that waits for the device must not spin it for minutes
GATE_TRIES = 4  # the last hold is 64 times as long as the first
CLOCK_READINGS = 10_000
COST_BATCHES = 10
SYNCHRONISE_CALLS = 101
TIMER_COSTS_PER_BLOCK = 1e4  # a block this many readings long is measured to 0.01 %


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one value per sample; none, and the reason, where it cannot be had.

    The reason of samples that can be had is what to know about them.
    """

    samples_s: tuple[float, ...]
    reason: str | None = None

    @property
    def median_s(self) -> float | None:
        """The median sample; None where there is none."""
        return statistics.median(self.samples_s) if self.samples_s else None


def latency(step: Step, device: Device, calls: int) -> Timing:
    """How long does a caller wait who needs the result of each call? One sample per call."""
    clock, call = device.clock, _awaited(step, device)
    samples: list[float] = []
    keep = samples.append
    device.synchronize()  # once: every call below leaves the queue empty for the next
    for _ in repeat(None, calls):
        start = clock()
        call()
        keep(clock() - start)
    return Timing(tuple(samples))


def _awaited(step: Step, device: Device) -> Step:
    """`step` and a wait for its work; by itself where calls return when their work is done."""
    if not device.queues:
        return step
    synchronize = device.synchronize

    def awaited() -> None:
        step()
        synchronize()

    return awaited


def host(step: Step, device: Device, calls: int) -> Timing:
    """How long is the host busy with one call if the device's queue is empty? A sample per call."""
    clock, synchronize = device.clock, device.synchronize
    samples: list[float] = []
    keep = samples.append
    for _ in repeat(None, calls):
        synchronize()
        start = clock()
        step()
        keep(clock() - start)
    synchronize()
    return Timing(tuple(samples))


def device_time(step: Step, device: Device, calls: int, host_s: float | None = None) -> Timing:
    """How long does the device work on one call? One sample, over `calls` calls.

    The queue is held until all calls are issued, so that launching is no part of the time. Proof:
    after the last one the device must still be before the start mark. Otherwise the time is thrown
    away and the hold lengthened; a step for which no hold is long enough has no device time.
    `host_s`, the host's time per call, is measured here if not given.
    """
    if not device.queues:
        return Timing((), "this device does not queue work, so no work runs apart from the host")
    if host_s is None:
        host_s = statistics.median(host(step, device, HOST_CALLS).samples_s)
    hold_s = HOLD_FACTOR * host_s * calls + HOLD_MARGIN_S
    longest_s = max(LONGEST_HOLD_S, HOLD_GROWTH * hold_s)
    holds_s = [hold_s * HOLD_GROWTH**attempt for attempt in range(GATE_TRIES)]
    for held_s in (each_s for each_s in holds_s if each_s <= longest_s):
        block_s = _held_block(step, device, calls, held_s)
        if block_s is not None:
            return Timing((block_s / calls,))
    return Timing(
        (),
        f"the device started before all {calls} calls were issued, however long it was held: the "
        "step waits for the device itself, or its launches fill the queue",
    )


def _held_block(step: Step, device: Device, calls: int, hold_s: float) -> float | None:
    """Device time of `calls` calls; None if it started before they were all issued."""
    device.synchronize()
    device.hold(hold_s)
    start = device.mark()
    for _ in range(calls):
        step()
    end = device.mark()
    all_issued_ahead = not start.reached()
    device.synchronize()
    return end.seconds_since(start) if all_issued_ahead else None


def pipelined(step: Step, device: Device, calls: int) -> Timing:
    """How much time does a further call add if calls follow each other without waiting?

    One sample: the slope between a block of `calls` and one of twice as many. A single block reads
    (host + calls x device) / calls: up to 10 % high for ten calls on a busy device. An interruption
    of the shorter block can make a slope negative. It is kept: without those that are, the median
    of many would be too high.
    """
    single_s = _block(step, device, calls)
    double_s = _block(step, device, 2 * calls)
    return Timing(((double_s - single_s) / calls,))


def _block(step: Step, device: Device, calls: int) -> float:
    device.synchronize()
    start = device.clock()
    for _ in range(calls):
        step()
    device.synchronize()
    return device.clock() - start


def resolution(clock: Clock) -> float | None:
    """The smallest step seen between readings of the clock, in its unit; None if it stood still."""
    readings = [clock() for _ in range(CLOCK_READINGS)]
    return min(
        (later - earlier for earlier, later in pairwise(readings) if later > earlier), default=None
    )


def reading_cost(clock: Clock) -> float:
    """How long does one reading of the clock take, in its unit?

    The median of several means, as an interruption would spoil a single one.
    """
    return statistics.median(_mean_cost(clock) for _ in range(COST_BATCHES))


def synchronize_cost(device: Device) -> float:
    """How long does a synchronise take when the device has nothing to do? In seconds."""
    device.synchronize()
    costs_s = []
    for _ in range(SYNCHRONISE_CALLS):
        start = device.clock()
        device.synchronize()
        costs_s.append(device.clock() - start)
    return statistics.median(costs_s)


def _mean_cost(clock: Clock) -> float:
    readings = CLOCK_READINGS // COST_BATCHES
    start = clock()
    for _ in range(readings - 1):
        clock()
    return (clock() - start) / readings


def calls_for(block_s: float, per_call_s: float, timer_cost_s: float) -> int:
    """How many calls make a block of `block_s`, and long against the cost of reading the clock?

    At least one. Raises ValueError if neither a call nor a reading takes any time.
    """
    # A call cannot be known to be shorter than a reading: this bounds the number of calls.
    call_s = max(per_call_s, timer_cost_s)
    if not call_s > 0:
        raise ValueError(
            f"got {per_call_s} s per call on a clock that costs {timer_cost_s} s per reading; one "
            "of them must be positive: measure more calls, or use a finer clock"
        )
    return max(1, math.ceil(max(block_s, TIMER_COSTS_PER_BLOCK * timer_cost_s) / call_s))
