"""Timers: each times a number of calls of a step on a device, and returns a `Timing`.

Also measures the cost of timing itself, once per process before anything else is timed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

from modescope.bench.devices.devices import (
    CallSequence,
    Device,
    Mark,
    Prepared,
    Step,
    bare_call,
    prepare_call,
    untimed_s,
)

COLD = "the data of each call are evicted before it, so calls cannot follow each other directly"

ReadClock = Callable[[], float]

HOST_CALLS = 5  # enough for a median; sets only how long the queue is held at first
HOLD_FACTOR = 1.5  # hold the queue for this many times as long as issuing is expected to take
HOLD_MARGIN_S = 1e-4  # added, as marks and the hold itself take host time too
HOLD_GROWTH = 4.0
LONGEST_HOLD_S = 1.0  # limits spinning for long steps that wait for the device
GATE_TRIES = 4  # the last hold is 64 times as long as the first
CLOCK_READINGS = 10_000
COST_BATCHES = 10
SYNCHRONISE_CALLS = 101
SHORT_BLOCKS = 5  # their median withstands an interruption, or a change of pace, of one of them
TIMER_COSTS_PER_BLOCK = 1e4  # a block this many readings long is measured to 0.01 %

NOT_IN_A_ROW = (
    "forward changes its arguments or buffers, which are put back before each call, so calls "
    "cannot follow each other directly"
)


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one value per sample; no samples if they cannot be measured."""

    samples_s: tuple[float, ...]
    reason: str | None = None  # why there are no samples, or what to know about them

    @property
    def median_s(self) -> float | None:
        """The median of the samples in seconds; None without samples."""
        return statistics.median(self.samples_s) if self.samples_s else None


def latency(step: Step, device: Device, calls: int) -> Timing:
    """Times how long a caller waits for the result of a call. One sample per call."""
    device.synchronize()  # once: every call leaves the queue empty for the next
    prepare = _add_wait(step.prepare, device) if isinstance(step, Prepared) else None
    return Timing(_each(_add_wait(bare_call(step), device), device.clock, calls, prepare))


def _each(
    call: Step, clock: ReadClock, calls: int, prepare: Step | None = None
) -> tuple[float, ...]:
    samples: list[float] = []
    keep = samples.append
    for _ in repeat(None, calls):
        if prepare is not None:
            prepare()
        start = clock()
        call()
        keep(clock() - start)
    return tuple(samples)


def _add_wait(step: Step, device: Device) -> Step:
    if not device.queues:
        return step
    if isinstance(step, CallSequence):
        return CallSequence(tuple(_add_wait(call, device) for call in step.calls))
    synchronize = device.synchronize

    def awaited() -> None:
        step()
        synchronize()

    return awaited


def host(step: Step, device: Device, calls: int) -> Timing:
    """Times how long the host is busy issuing a call to an empty queue. One sample per call."""
    clock, synchronize = device.clock, device.synchronize
    prepare, step = step.prepare if isinstance(step, Prepared) else None, bare_call(step)
    samples: list[float] = []
    keep = samples.append
    for _ in repeat(None, calls):
        if prepare is not None:
            prepare()
        synchronize()
        start = clock()
        step()
        keep(clock() - start)
    synchronize()
    return Timing(tuple(samples))


def device_time(step: Step, device: Device, calls: int, host_s: float | None = None) -> Timing:
    """Times how long the device works on a call. One sample, the mean over `calls` calls.

    The queue is held (blocked) until all calls are issued, so that launching is not included. If
    the device passes the start mark before that, a longer hold is tried. A step for which no hold
    is long enough has no device time. `host_s`, the host's time per call, is measured if it is
    None.
    """
    if not device.queues:
        return Timing((), "this device does not queue work, so it has no time apart from the host")
    if isinstance(step, Prepared) and not step.in_a_row and step.evicts_s is None:
        return Timing((), NOT_IN_A_ROW)
    if host_s is None:
        host_s = statistics.median(host(step, device, HOST_CALLS).samples_s) + untimed_s(step)
    hold_s = HOLD_FACTOR * host_s * calls + HOLD_MARGIN_S
    longest_s = max(LONGEST_HOLD_S, HOLD_GROWTH * hold_s)
    holds_s = [hold_s * HOLD_GROWTH**attempt for attempt in range(GATE_TRIES)]
    for held_s in (each_s for each_s in holds_s if each_s <= longest_s):
        block_s = _held_block(step, device, calls, held_s)
        if block_s is not None:
            return Timing((block_s / calls,))
    return Timing(
        (),
        f"the device started before all {calls} calls were issued, even with the longest hold: the "
        "step waits for the device itself, or its launches fill the queue",
    )


def _held_block(step: Step, device: Device, calls: int, hold_s: float) -> float | None:
    device.synchronize()
    device.hold(hold_s)
    evicts = isinstance(step, Prepared) and step.evicts_s is not None
    marks: list[tuple[Mark, Mark]] = []
    for _ in range(calls if evicts else 1):
        call = prepare_call(step) if evicts else step
        start = device.mark()
        for _ in range(1 if evicts else calls):
            call()
        marks.append((start, device.mark()))
    all_issued_ahead = not marks[0][0].reached()
    device.synchronize()
    seconds = sum(end.seconds_since(start) for start, end in marks)
    return seconds if all_issued_ahead else None


def pipelined(step: Step, device: Device, calls: int) -> Timing:
    """Times how much a further call adds if calls follow each other without waiting.

    Without a queue, the samples are means of up to SHORT_BLOCKS blocks, which together have `calls`
    calls. With a queue, the only sample is the slope between a block of `calls` calls and a block
    of twice as many. A single block would give (host + calls x device) / calls: up to 10 % too much
    for ten calls on a busy device. An interruption of the shorter block can make a slope negative.
    Such slopes are kept, because without them the median of many would be too high.
    """
    if isinstance(step, Prepared) and not step.in_a_row:
        return Timing((), NOT_IN_A_ROW if step.evicts_s is None else COLD)
    if not device.queues:
        blocks = min(SHORT_BLOCKS, calls)
        length = calls // blocks
        return Timing(tuple(_block(step, device, length) / length for _ in range(blocks)))
    single_s, double_s = _block(step, device, calls), _block(step, device, 2 * calls)
    return Timing(((double_s - single_s) / calls,))


def pipelined_blocks(device: Device) -> int:
    """Returns the factor by which `pipelined` makes more calls on `device` than its `calls` says.

    It is 3 with a queue, for a block of `calls` calls and one of twice as many; else 1.
    """
    return 3 if device.queues else 1


def _block(step: Step, device: Device, calls: int) -> float:
    device.synchronize()
    start = device.clock()
    for _ in range(calls):
        step()
    device.synchronize()
    return device.clock() - start


def reading_cost(clock: ReadClock) -> float:
    """Returns how long one call of `clock`, which returns the time, takes: a median of means.

    The unit is that of `clock`.
    """
    return statistics.median(_mean_cost(clock) for _ in range(COST_BATCHES))


def synchronize_cost(device: Device) -> float:
    """Returns the seconds that synchronising an idle device takes."""
    device.synchronize()
    return statistics.median(_each(device.synchronize, device.clock, SYNCHRONISE_CALLS))


def _mean_cost(clock: ReadClock) -> float:
    readings = CLOCK_READINGS // COST_BATCHES
    start = clock()
    for _ in range(readings - 1):
        clock()
    return (clock() - start) / readings


def calls_for(block_s: float, per_call_s: float, timer_cost_s: float) -> int:
    """Returns the number of calls, at least one, that fill a block of `block_s` seconds.

    `per_call_s`: expected time of a call. `timer_cost_s`: time of reading the clock; the block
    lasts at least TIMER_COSTS_PER_BLOCK of these. Raises ValueError if neither a call nor a reading
    takes any time.
    """
    # No call counts as shorter than a reading, which limits the number of calls.
    call_s = max(per_call_s, timer_cost_s)
    if not call_s > 0:
        raise ValueError(
            f"got {per_call_s} s per call and {timer_cost_s} s per reading of the clock; one of "
            "them must be positive: measure more calls, or use a finer clock"
        )
    return max(1, math.ceil(max(block_s, TIMER_COSTS_PER_BLOCK * timer_cost_s) / call_s))
