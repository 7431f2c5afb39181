"""A step by name that any process can build, and one that is built and ready to be called."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bench.devices import Device, Hardware, find
from bench.testbed.workloads import Workload, built, call_s, planted
from bench.timers import latency

CLOCKS_UP_S = 0.3

WARM_UP_CALLS = 20


@dataclass(frozen=True)
class Recipe:
    """A step by name, so that any process can build it. Each `build` shares no memory."""

    workload: str  # a name of bench.testbed.workloads
    device: str  # its name: each process finds the device anew
    threads: int
    longer: float | None = None  # a share of itself, planted on top; None: the plain workload

    def build(self, device: Hardware) -> Workload:
        """The step on `device`, its operators on `threads` threads."""
        torch.set_num_threads(self.threads)
        work = built(self.workload, device)
        return work if self.longer is None else planted(work, self.longer, device)


@dataclass(frozen=True)
class Side:
    """A step that is ready to be called, and what a harness may know of it."""

    step: Workload
    device: Device
    call_s: float  # about how long a call takes
    recipe: Recipe


def ready(name: str) -> Hardware:
    """The device called `name`, its clocks up. Raises UsageError where there is none.

    A GPU that idled runs slowly, and spins by what it then read of its clock would be too short
    later: a first spin wakes it, then the clock is read again.
    """
    device = find(name)
    if device.queues:
        device.hold(CLOCKS_UP_S)
        device.synchronize()
        device.clock_hz()
    return device


def side(recipe: Recipe, device: Hardware) -> Side:
    """A side built in this process, called a few times, its duration taken once."""
    step = recipe.build(device)
    latency(step, device, WARM_UP_CALLS)
    return Side(step, device, call_s(step, device), recipe)
