"""What does measuring cost here? Read once per process, before anything is timed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from bench import timers
from bench.devices import Device

EMPTY_CALLS = 1001  # some tenths of a millisecond on a CPU, milliseconds on a GPU
MARKS = 101
MARKS_HOLD_S = 0.02  # to put down a mark takes the host microseconds


@dataclass(frozen=True)
class Calibration:
    """What measuring itself takes; the names are those of the record's columns."""

    timer_resolution_s: float | None
    timer_cost_s: float
    synchronize_s: float
    empty_step_s: float
    event_interval_s: float | None


def calibrate(device: Device) -> Calibration:
    """Reads all of them. Nothing is subtracted from any measurement."""
    return Calibration(
        timer_resolution_s=timers.resolution(device.clock),
        timer_cost_s=timers.reading_cost(device.clock),
        synchronize_s=timers.synchronize_cost(device),
        empty_step_s=empty_step(device),
        event_interval_s=event_interval(device),
    )


def empty_step(device: Device) -> float:
    """How long does a call take that does nothing, timed as every call is? In seconds.

    So much of each latency is the harness: a reading of the clock, a call and a synchronise.
    """
    return median(timers.latency(_nothing, device, EMPTY_CALLS).samples_s)


def event_interval(device: Device) -> float | None:
    """How much device time lies between two marks with nothing in between? In seconds.

    So much of each block of device time is the marks'. The marks are queued behind a held device,
    or the host's pace would be in it; None where the hold was too short, and without a queue.
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


def _nothing() -> None:
    """A step without work."""
