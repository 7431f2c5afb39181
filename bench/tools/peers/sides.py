"""The two sides of a comparison: built alike, moved in memory, measured in random order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from modescope.bench.devices.devices import Hardware
from modescope.bench.timing import memory_layout
from modescope.bench.tools.testbed.sides import Recipe, Side, side

CallTimes = tuple[float, ...]
"""Seconds per call: the samples of a harness."""


def pair(
    plain: Recipe, change: float, device: Hardware, shuffle: random.Random
) -> tuple[Side, Side]:
    """Case and baseline, built in random order; the case takes `change` (0.01: 1 %) longer.

    Both have the same wrapper and differ only in the length of its wait. On a CPU their tensors are
    moved once, because the allocator often reuses the memory of an earlier pair.
    """
    longer = {"case": change, "baseline": 0.0}
    sides = {
        name: side(replace(plain, longer=longer[name]), device)
        for name in shuffle.sample(list(longer), len(longer))
    }
    case, baseline = sides["case"], sides["baseline"]
    tensors = [*case.step.tensors, *baseline.step.tensors]
    memory_layout.anew(tensors, device, shuffle.randrange(2**32))()
    return case, baseline


def one_after_the_other(measure: Callable[[Side, float], CallTimes]) -> Compare:
    """The comparison by a harness of single steps: each side in random order for half the time."""

    def compare(
        case: Side, baseline: Side, seconds: float, shuffle: random.Random
    ) -> tuple[CallTimes, CallTimes]:
        sides = {"case": case, "baseline": baseline}
        taken = {
            name: measure(sides[name], seconds / 2)
            for name in shuffle.sample(list(sides), len(sides))
        }
        return taken["case"], taken["baseline"]

    return compare


Compare = Callable[[Side, Side, float, random.Random], tuple[CallTimes, CallTimes]]
"""Measures case and baseline for about so many seconds in total, in random order."""
