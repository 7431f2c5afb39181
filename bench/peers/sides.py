"""Two sides of a comparison: built alike, placed in memory anew, measured in random order."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from bench import placement
from bench.devices import Hardware
from bench.testbed.sides import Recipe, Side, side

Samples = tuple[float, ...]
"""Seconds per call, as many as a harness takes down."""


def pair(
    plain: Recipe, change: float, device: Hardware, shuffle: random.Random
) -> tuple[Side, Side]:
    """Case and baseline, built anew in random order; the case takes `change` (0.01: 1 %) longer.

    Both carry the same wrapper, so that only the length of the wait tells them apart. On a CPU
    their tensors are moved once, as memory that an earlier pair left is often given out again.
    """
    longer = {"case": change, "baseline": 0.0}
    sides = {
        name: side(replace(plain, longer=longer[name]), device)
        for name in shuffle.sample(list(longer), len(longer))
    }
    case, baseline = sides["case"], sides["baseline"]
    tensors = [*case.step.tensors, *baseline.step.tensors]
    placement.anew(tensors, device, shuffle.randrange(2**32))()
    return case, baseline


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
