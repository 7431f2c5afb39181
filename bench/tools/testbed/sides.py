"""A step by name, which any process can build, and a step that is built and warmed up."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.bench.timing.timers import latency
from modescope.bench.tools.testbed.workloads import Workload, built, call_s

CLOCKS_UP_S = 0.3

WARM_UP_CALLS = 20


@dataclass(frozen=True)
class Recipe:
    """A step by name, so that any process can build it. Steps built from it share no memory."""

    workload: str  # a key of bench.tools.testbed.workloads.WORKLOADS
    device: str  # its name; each process opens the device itself
    threads: int

    def build(self, device: Hardware) -> Workload:
        """The step on `device`, its operators on `threads` threads."""
        torch.set_num_threads(self.threads)
        return built(self.workload, device)


@dataclass(frozen=True)
class Side:
    """A step that is ready to be called, and the time of a call."""

    step: Workload
    call_s: float  # approximate time of a call


def ready(name: str) -> Hardware:
    """The device called `name`, with its clocks up. Raises UsageError if there is none.

    An idle GPU has a low clock, and spins calibrated with it would later be too short: a first spin
    raises the clock, then it is read again.
    """
    device = find(name)
    if device.queues:
        device.hold(CLOCKS_UP_S)
        device.synchronize()
        device.clock_hz()
    return device


def side(recipe: Recipe, device: Hardware) -> Side:
    """A side built in this process and warmed up, with one estimate of its call time."""
    step = recipe.build(device)
    latency(step, device, WARM_UP_CALLS)
    return Side(step, call_s(step, device))
