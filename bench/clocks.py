"""How long is the host busy, the device busy, and how fast do calls follow each other?

Three more readings of the step whose latency was timed, in blocks that take turns in random order.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median

from bench.devices import Device, Step
from bench.placement import Redraw
from bench.records import Budget
from bench.rounds import quiet_gc, settling
from bench.timers import Timing, calls_for, device_time, host, pipelined, reading_cost

EVENT_BLOCK_S = 500e-6
"""Length of a block between two device marks: CUDA events resolve about 0.5 µs."""

PIPELINE_BLOCKS = 5  # a slope is a difference: it takes longer blocks to be as certain

SHORTEST_S = 1e-6  # no kernel is shorter: bounds the calls of a step without work

FEWER = 4  # a block that overfills the queue is tried again with a quarter of the calls

Samples = tuple[float, ...]


@dataclass(frozen=True)
class Clocks:
    """One value per block and clock; what could not be had is None, `device_s` with the reason."""

    host_s: Samples
    pipelined_s: Samples | None
    device_s: Samples | None
    device_note: str | None
    device_calls: int | None  # in each block behind a held device
    device_calls_wanted: int | None  # that would make a block long enough


@dataclass(frozen=True)
class _Block:
    """How many calls can be queued ahead of a held device; None, and why, where not even one."""

    calls: int | None
    wanted: int
    reason: str | None = None


def read(
    step: Step,
    device: Device,
    budget: Budget,
    seed: int,
    latency_s: float,
    redraw: Redraw = lambda: None,
) -> Clocks:
    """Reads the clocks of a warm `step` whose calls take about `latency_s`.

    Each block finds memory placed anew by `redraw`, as the rounds of `bench.rounds` do. Takes
    `budget.clock_rounds` blocks of each clock, fewer if they do not fit in `budget.timed_max_s`.
    """
    cost_s = reading_cost(device.clock)
    calls = calls_for(budget.block_s, latency_s, cost_s)
    in_a_row = calls_for(PIPELINE_BLOCKS * budget.block_s, latency_s, cost_s)
    deadline = device.clock() + budget.timed_max_s
    shuffle = random.Random(seed)
    with quiet_gc():
        block = _calls_that_fit(step, device, latency_s)
        clocks = {
            "host": lambda: Timing((median(host(step, device, calls).samples_s),)),
            "pipelined": lambda: pipelined(step, device, in_a_row),
        }
        if (isolated := block.calls) is not None:
            clocks["device"] = lambda: device_time(step, device, isolated)
        samples: dict[str, list[float]] = {name: [] for name in ("host", "pipelined", "device")}
        reasons: dict[str, str | None] = {"device": block.reason}
        for _ in range(budget.clock_rounds):
            for name in shuffle.sample(list(clocks), len(clocks)):
                placement = redraw()
                for _ in range(settling(latency_s)):
                    step()  # untimed: it finds its memory in no cache
                timing = clocks[name]()
                del placement
                samples[name] += timing.samples_s
                reasons[name] = timing.reason
            if device.clock() > deadline:
                break
    device_s = tuple(samples["device"]) or None
    return Clocks(
        host_s=tuple(samples["host"]),
        pipelined_s=_above_zero(samples["pipelined"]),
        device_s=device_s,
        device_note=None if device_s else reasons["device"],
        device_calls=block.calls if device_s else None,
        device_calls_wanted=block.wanted if device_s else None,
    )


def _above_zero(slopes_s: list[float]) -> Samples | None:
    """None where noise, or a clock too coarse, leaves no duration in the middle."""
    return tuple(slopes_s) if slopes_s and median(slopes_s) > 0 else None


def _calls_that_fit(step: Step, device: Device, latency_s: float) -> _Block:
    """As many calls as a block needs, or the most that can be queued ahead of a held device."""
    calls = wanted = calls_for(EVENT_BLOCK_S, latency_s, 0.0) if device.queues else 1
    while True:
        timing = device_time(step, device, calls)
        if timing.samples_s and calls == wanted:
            return _long_enough(step, device, calls, timing.samples_s[0])
        if timing.samples_s:
            return _Block(calls, wanted)
        if calls == 1:
            return _Block(None, wanted, timing.reason)
        calls = max(1, calls // FEWER)


def _long_enough(step: Step, device: Device, calls: int, device_s: float) -> _Block:
    """More calls where the device is done with `calls` of them too soon, if they can be queued."""
    wanted = max(calls, math.ceil(EVENT_BLOCK_S / max(device_s, SHORTEST_S)))
    if wanted > calls and device_time(step, device, wanted).samples_s:
        return _Block(wanted, wanted)
    return _Block(calls, wanted)
