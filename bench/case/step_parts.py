"""Times the parts of a step, in a separate pass."""

from __future__ import annotations

import random
from statistics import median

from modescope.bench.devices.devices import Device, Step, ready
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import StepParts
from modescope.bench.steps.built_step import Built, StepPart
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import Clock, Side, medians, orders, play, quiet_gc, settling
from modescope.bench.timing.timers import Timing, calls_for, latency, reading_cost

ONE_GRAPH = "the whole step is one captured graph, whose parts cannot be timed"


def read(built: Built, device: Device, budget: Budget, seed: int, latency_s: float) -> StepParts:
    """Times of the parts of steps that take about `latency_s`, and of whole steps beside them.

    One value per round, which holds a block of each in random order. Each part is waited for, which
    keeps the host from running ahead, so on a GPU the parts take longer together than the step.
    Each block starts from the initial state with a redraw. There are fewer rounds where they do not
    fit in `budget.timed_max_s`. All state is restored on return.
    """
    if built.step != built.live:
        return StepParts(parts_note=ONE_GRAPH)
    parts = built.state.parts()
    calls = calls_for(budget.block_s, latency_s, len(parts) * reading_cost(device.clock))
    rounds_s: dict[str, list[float]] = {}

    def in_parts(step: Step, device: Device, calls: int) -> Timing:
        """Times whole steps, and notes the median of each of their parts."""
        samples = [_step(step, parts, device) for _ in range(calls)]
        for name in samples[0]:
            rounds_s.setdefault(name, []).append(median(each[name] for each in samples))
        return Timing(tuple(sum(each.values()) for each in samples))

    with built.kept(), quiet_gc():
        redraw = memory_layout.anew(built.tensors(), device, seed, built.state.restore)
        clocks = [
            Clock(name, (Side(built.step, timer, calls, settling(latency_s)),), redraw)
            for name, timer in (("whole", latency), ("in_parts", in_parts))
        ]
        planned = orders(clocks, budget.clock_rounds, random.Random(seed))
        played = play(clocks, planned, device, device.clock() + budget.timed_max_s)
    return StepParts(
        **{name: tuple(values) for name, values in rounds_s.items()},
        parts_latency_rounds_s=medians(played, 0, 0),
        parts_note=built.state.parts_note(),
    )


def _step(step: Step, parts: tuple[StepPart, ...], device: Device) -> dict[str, float]:
    """Runs `step` in parts; returns the seconds of each, which may consist of several pieces."""
    seconds: dict[str, float] = {}
    loss = None
    ready(step)
    device.synchronize()
    for name, part in parts:
        start = device.clock()
        loss = part(loss)
        device.synchronize()
        seconds[name] = seconds.get(name, 0.0) + device.clock() - start
    return seconds
