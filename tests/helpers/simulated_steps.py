"""Steps on a simulated device whose times can be worked out by hand, in seconds."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from modescope.bench.devices.devices import Step
from tests.helpers.simulated import SimulatedDevice, step


def device_bound(device: SimulatedDevice) -> Step:
    return step(device, (0.5, 3.0))


def host_bound(device: SimulatedDevice) -> Step:
    return step(device, (3.0, 0.5))


def two_kernels(device: SimulatedDevice) -> Step:
    """Two kernels, launched at 0.5 and 1.0 s, which run from 0.5 to 1.5 and from 1.5 to 2.5 s."""
    return step(device, (0.5, 1.0), (0.5, 1.0))


def trailing_host_work(device: SimulatedDevice) -> Step:
    """A kernel that runs from 0.5 to 1.0 s, while the host works until 2.5 s."""
    return step(device, (0.5, 0.5), (2.0, 0.0))


KNOWN: dict[Callable[[SimulatedDevice], Step], tuple[float, float, float, float]] = {
    device_bound: (3.5, 0.5, 3.0, 3.0),
    host_bound: (3.5, 3.0, 0.5, 3.0),
    two_kernels: (2.5, 1.0, 2.0, 2.0),
    trailing_host_work: (2.5, 2.5, 0.5, 2.5),
}
"""Steps and their latency, host time, device time and pipelined time, in seconds."""


def recording(device: SimulatedDevice, log: list[str], name: str) -> Step:
    """A step of 1 ms on the host that appends `name` to `log`."""
    work = step(device, (1e-3, 0.0))

    def call() -> None:
        log.append(name)
        work()

    return call


class Placement:
    """What a redraw of the memory layout returns; the layout lasts while somebody holds it."""


class Placements:
    """Makes redraws, each of which appends `|` to `log`, and steps that need the last of them."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.drawn: list[weakref.ref[Placement]] = []

    def redraw(self) -> Placement:
        """Makes a new placement."""
        self.log.append("|")
        placement = Placement()
        self.drawn.append(weakref.ref(placement))
        return placement

    @property
    def held(self) -> bool:
        """Whether somebody still refers to the last placement."""
        return self.drawn[-1]() is not None

    def needed_by(self, work: Step) -> Step:
        """A step that runs `work`, and fails if nobody holds the last placement."""

        def looking() -> None:
            assert self.held
            work()

        return looking
