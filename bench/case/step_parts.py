"""Times the parts of a step, in a separate pass."""

from __future__ import annotations

import random
from statistics import median

from modescope.bench.devices.devices import Device
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import StepParts
from modescope.bench.steps.built_step import Built, StepPart
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import quiet_gc, settling
from modescope.bench.timing.timers import calls_for, latency, reading_cost

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

    def whole() -> dict[str, float]:
        return {"parts_latency_rounds_s": median(latency(built.step, device, calls).samples_s)}

    def in_parts() -> dict[str, float]:
        samples = [_step(parts, device) for _ in range(calls)]
        return {name: median(each[name] for each in samples) for name in samples[0]}

    deadline = device.clock() + budget.timed_max_s
    shuffle = random.Random(seed)
    with built.kept(), quiet_gc():
        redraw = memory_layout.anew(built.tensors(), device, seed, built.state.restore)
        for _ in range(budget.clock_rounds):
            for block in shuffle.sample((whole, in_parts), 2):
                held = redraw()
                for _ in range(settling(latency_s)):
                    built.step()
                for name, seconds in block().items():
                    rounds_s.setdefault(name, []).append(seconds)
                del held
            if device.clock() > deadline:
                break
    columns = {name: tuple(values) for name, values in rounds_s.items()}
    return StepParts(**columns, parts_note=built.state.parts_note())


def _step(parts: tuple[StepPart, ...], device: Device) -> dict[str, float]:
    """Runs one step; returns the seconds of each part, which may consist of several pieces."""
    seconds: dict[str, float] = {}
    loss = None
    device.synchronize()
    for name, part in parts:
        start = device.clock()
        loss = part(loss)
        device.synchronize()
        seconds[name] = seconds.get(name, 0.0) + device.clock() - start
    return seconds
