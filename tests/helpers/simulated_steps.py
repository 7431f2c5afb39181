"""Steps on a simulated device whose times are known by hand."""

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
    """Launches at 0.5 and 1.0; executes 0.5 to 1.5 and 1.5 to 2.5: the second launch is hidden."""
    return step(device, (0.5, 1.0), (0.5, 1.0))


def trailing_host_work(device: SimulatedDevice) -> Step:
    """Executes 0.5 to 1.0 while the host goes on until 2.5."""
    return step(device, (0.5, 0.5), (2.0, 0.0))


KNOWN: dict[Callable[[SimulatedDevice], Step], tuple[float, float, float, float]] = {
    device_bound: (3.5, 0.5, 3.0, 3.0),
    host_bound: (3.5, 3.0, 0.5, 3.0),
    two_kernels: (2.5, 1.0, 2.0, 2.0),
    trailing_host_work: (2.5, 2.5, 0.5, 2.5),
}
"""Steps and their latency, host time, device time and pipelined time, in seconds."""


def recording(device: SimulatedDevice, log: list[str], name: str) -> Step:
    """A step of 1 ms on the host that notes its name in `log`."""
    work = step(device, (1e-3, 0.0))

    def call() -> None:
        log.append(name)
        work()

    return call


class Placement:
    """An object that a redraw of the memory layout returns."""


class Placements:
    """Redraws, each noted as `|`, and steps that fail if the last placement is not held."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.drawn: list[weakref.ref[Placement]] = []

    def redraw(self) -> Placement:
        """A new placement."""
        self.log.append("|")
        placement = Placement()
        self.drawn.append(weakref.ref(placement))
        return placement

    @property
    def held(self) -> bool:
        """Whether somebody still refers to the last placement."""
        return self.drawn[-1]() is not None

    def needed_by(self, work: Step) -> Step:
        """`work`, which needs the last placement."""

        def looking() -> None:
            assert self.held
            work()

        return looking
