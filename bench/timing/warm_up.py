"""Warm-up of steps to a steady state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from modescope.bench.devices.devices import Device, Step
from modescope.bench.records.cases import Budget
from modescope.bench.timing.timers import calls_for, latency, reading_cost

FIRST_CALLS = 3  # graph modes of torch.compile: one warms up, one records, one replays
STEADY_WITHIN = 0.01


@dataclass(frozen=True)
class WarmUp:
    """The time until the steps were steady, and their time per call from then on."""

    seconds: float
    steady: bool
    per_call_s: tuple[float, ...]  # one per step


def warm_up(steps: Sequence[Step], device: Device, budget: Budget) -> WarmUp:
    """Calls the steps in turn until each is steady; gives up after `budget.warmup_max_s`.

    Steady: the median of the last third of the block medians is within 1 % of that of the third
    before it. Every step is called at least three times.
    """
    cost_s = reading_cost(device.clock)
    start = device.clock()
    blocks = [list(latency(step, device, FIRST_CALLS).samples_s) for step in steps]
    while True:
        seconds = device.clock() - start
        steady = seconds >= budget.warmup_min_s and all(map(_is_steady, blocks))
        if steady or seconds >= budget.warmup_max_s:
            return WarmUp(seconds, steady, tuple(median(_windows(b)[1]) for b in blocks))
        for step, medians in zip(steps, blocks, strict=True):
            calls = calls_for(budget.block_s, medians[-1], cost_s)
            medians.append(median(latency(step, device, calls).samples_s))


def _windows(blocks: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    size = len(blocks) // 3
    return blocks[-2 * size : -size], blocks[-size:]


def _is_steady(blocks: Sequence[float]) -> bool:
    earlier, later = map(median, _windows(blocks))
    return abs(later - earlier) <= STEADY_WITHIN * earlier
