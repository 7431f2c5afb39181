"""Host, device and pipelined time of the step that was timed: blocks in random order."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from statistics import median
from typing import Any

from modescope.bench.devices.devices import Device, Step
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import Clocks
from modescope.bench.timing import timers
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.rounds import quiet_gc, settling

EVENT_BLOCK_S = 500e-6
"""Length of a block between two device marks, as CUDA events resolve only about 0.5 µs."""

PIPELINE_BLOCKS = 5  # a slope is a difference: the same certainty needs longer blocks

SHORTEST_S = 1e-6  # no kernel is shorter: limits the calls of a step without work

FEWER = 4  # a block that overfills the queue is repeated with a quarter of the calls


@dataclass(frozen=True)
class _Block:
    """How many calls can be queued on a held device; None, and the reason, if not even one."""

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
    """Reads all clocks but dispatch of a warm `step` whose calls take about `latency_s`.

    Each block begins with `redraw`, as in `bench.timing.rounds`. There are `budget.clock_rounds`
    blocks of each clock, fewer if they do not fit in `budget.timed_max_s`.
    """
    start = device.clock()
    cost_s = timers.reading_cost(device.clock)
    calls = timers.calls_for(budget.block_s, latency_s, cost_s)
    in_a_row = timers.calls_for(PIPELINE_BLOCKS * budget.block_s, latency_s, cost_s)
    deadline = device.clock() + budget.timed_max_s
    shuffle = random.Random(seed)
    with quiet_gc():
        block = _calls_that_fit(step, device, latency_s)
        clocks = {
            "host": lambda: timers.Timing((median(timers.host(step, device, calls).samples_s),)),
            "pipelined": lambda: timers.pipelined(step, device, in_a_row),
        }
        if (fitting := block.calls) is not None:
            clocks["device"] = lambda: timers.device_time(step, device, fitting)
        samples: dict[str, list[float]] = {name: [] for name in (*clocks, "device")}
        reasons = {"device": block.reason}
        for _ in range(budget.clock_rounds):
            for name in shuffle.sample(list(clocks), len(clocks)):
                placement = redraw()
                for _ in range(settling(latency_s)):
                    step()  # untimed: its memory is in no cache yet
                timing = clocks[name]()
                del placement
                samples[name] += timing.samples_s
                reasons[name] = timing.reason
            if device.clock() > deadline:
                break
    slopes_s = samples["pipelined"]
    if slopes_s and median(slopes_s) <= 0:  # noise, or a clock that is too coarse
        slopes_s.clear()
    columns: dict[str, Any] = {f"{name}_rounds_s": tuple(s) or None for name, s in samples.items()}
    isolated = bool(samples["device"])
    return Clocks(
        **columns,
        device_note=None if isolated else reasons["device"],
        device_calls=block.calls if isolated else None,
        device_calls_wanted=block.wanted if isolated else None,
        clocks_s=device.clock() - start,
    )


def _calls_that_fit(step: Step, device: Device, latency_s: float) -> _Block:
    """As many calls as a block needs, or the most that can be queued on a held device."""
    calls = wanted = timers.calls_for(EVENT_BLOCK_S, latency_s, 0.0) if device.queues else 1
    while True:
        timing = timers.device_time(step, device, calls)
        if timing.samples_s and calls == wanted:
            return _long_enough(step, device, calls, timing.samples_s[0])
        if timing.samples_s:
            return _Block(calls, wanted)
        if calls == 1:
            return _Block(None, wanted, timing.reason)
        calls = max(1, calls // FEWER)


def _long_enough(step: Step, device: Device, calls: int, device_s: float) -> _Block:
    """More calls, if they can be queued, where `calls` of them make too short a block."""
    wanted = max(calls, math.ceil(EVENT_BLOCK_S / max(device_s, SHORTEST_S)))
    if wanted > calls and timers.device_time(step, device, wanted).samples_s:
        return _Block(wanted, wanted)
    return _Block(calls, wanted)
