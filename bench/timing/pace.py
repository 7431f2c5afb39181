"""The pace of the machine: the time of a fixed piece of work, beside what is timed.

Virtual cores may change their speed by half within milliseconds. Absolute times of two rows can be
compared after division by the pace of their rounds.
"""

from __future__ import annotations

from itertools import repeat

from modescope.bench.devices.devices import Device, Step
from modescope.bench.timing.rounds import Clock, Side
from modescope.bench.timing.timers import Timing

ITERATIONS = 1000  # about 20 µs of integer arithmetic in the interpreter
CALLS = 5  # of which the median counts


def work() -> None:
    """A fixed number of additions in Python, whose data fit into the first-level cache."""
    total = 0
    for one in repeat(1, ITERATIONS):
        total += one


def clock(name: str = "pace", step: Step = work) -> Clock:
    """A clock of this name that times `step`, the same in all that is compared."""
    return Clock(name, (Side(step, time_of, CALLS, settling_calls=1),))


def time_of(step: Step, device: Device, calls: int) -> Timing:
    """The time of a call on the host, whatever the device does. One sample per call."""
    now = device.clock
    samples = []
    for _ in repeat(None, calls):
        start = now()
        step()
        samples.append(now() - start)
    return Timing(tuple(samples))
