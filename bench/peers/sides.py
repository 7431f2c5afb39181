"""What is measured: one side of a comparison, and how a fresh process builds the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import torch

from bench.devices import Device, Hardware, find
from bench.testbed.workloads import Workload, built, planted
from bench.timers import latency

Samples = tuple[float, ...]
"""Seconds per call, as many as a harness takes down."""

CLOCKS_UP_S = 0.3

WARM_UP_CALLS = 20
CALIBRATION_CALLS = 200


@dataclass(frozen=True)
class Recipe:
    """A step by name, so that any process can build it. Each `build` shares no memory."""

    workload: str  # a name of bench.testbed.workloads
    device: str  # its name: each process finds the device anew
    threads: int
    extra_s: float | None = None  # planted on top; None: the plain workload

    def build(self, device: Hardware) -> Workload:
        """The step on `device`, its operators on `threads` threads."""
        torch.set_num_threads(self.threads)
        work = built(self.workload, device)
        return work if self.extra_s is None else planted(work, self.extra_s, device)


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
    call_s = median(latency(step, device, CALIBRATION_CALLS).samples_s)
    return Side(step, device, call_s, recipe)


def pair(
    plain: Recipe, change: float, device: Hardware, shuffle: random.Random
) -> tuple[Side, Side]:
    """Case and baseline, built anew in random order; the case takes `change` (0.01: 1 %) longer.

    Both carry the same wrapper, so that only the length of the wait tells them apart.
    """
    reference = side(replace(plain, extra_s=0.0), device)  # a third copy, of no further use
    extras = {"case": change * reference.call_s, "baseline": 0.0}
    sides = {
        name: side(replace(plain, extra_s=extras[name]), device)
        for name in shuffle.sample(list(extras), len(extras))
    }
    return sides["case"], sides["baseline"]


def one_after_the_other(measure: Callable[[Side, float], Samples]) -> Compare:
    """How a harness of single steps compares: each side once, in random order, half the time."""

    def compare(
        case: Side, baseline: Side, seconds: float, shuffle: random.Random
    ) -> tuple[Samples, Samples]:
        sides = {"case": case, "baseline": baseline}
        taken = {
            name: measure(sides[name], seconds / 2)
            for name in shuffle.sample(list(sides), len(sides))
        }
        return taken["case"], taken["baseline"]

    return compare


Compare = Callable[[Side, Side, float, random.Random], tuple[Samples, Samples]]
"""Measures case and baseline for about so many seconds in all; draws lots where order matters."""
