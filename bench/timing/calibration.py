"""The cost of measuring itself, measured once per process before anything is timed."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from modescope.bench.devices.devices import Device
from modescope.bench.records.columns import Calibration
from modescope.bench.timing import timers

EMPTY_CALLS = 1001  # some tenths of a millisecond on a CPU, milliseconds on a GPU
MARKS = 101
MARKS_HOLD_S = 0.02  # enough to queue all marks, which takes the host microseconds each


def calibrate(device: Device) -> Calibration:
    """All costs. They are not subtracted from any measurement."""
    return Calibration(
        timer_resolution_s=timers.resolution(device.clock),
        timer_cost_s=timers.reading_cost(device.clock),
        synchronize_s=timers.synchronize_cost(device),
        empty_step_s=empty_step(device),
        event_interval_s=event_interval(device),
    )


def empty_step(device: Device) -> float:
    """Latency of a call that does nothing, in seconds: the harness's part of every latency."""
    return median(timers.latency(lambda: None, device, EMPTY_CALLS).samples_s)


def event_interval(device: Device) -> float | None:
    """Seconds of device time between two marks: their part of each block of device time.

    The marks are queued on a held device, so that the host's speed does not matter. None where the
    hold was too short, and without a queue.
    """
    if not device.queues:
        return None
    device.synchronize()
    device.hold(MARKS_HOLD_S)
    marks = [device.mark() for _ in range(MARKS)]
    all_issued_ahead = not marks[0].reached()
    device.synchronize()
    if not all_issued_ahead:
        return None
    return median(later.seconds_since(earlier) for earlier, later in pairwise(marks))
