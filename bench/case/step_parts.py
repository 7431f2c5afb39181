"""Times the parts of a step, in a separate pass."""

from __future__ import annotations

from statistics import median

from modescope.bench.devices.devices import Device
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import StepParts
from modescope.bench.steps.built_step import Built, StepPart
from modescope.bench.timing import memory_layout
from modescope.bench.timing.rounds import quiet_gc, settling
from modescope.bench.timing.timers import calls_for, reading_cost

ONE_GRAPH = "the whole step is one captured graph, whose parts cannot be timed"


def read(built: Built, device: Device, budget: Budget, seed: int, latency_s: float) -> StepParts:
    """Times of the parts of steps that take about `latency_s`, one value per block.

    Each part is waited for, which keeps the host from running ahead, so on a GPU the parts take
    longer together than the timed step. Blocks are as in `bench.timing.further_clocks`: each starts
    from the initial state with a redraw, and there are fewer where they do not fit in
    `budget.timed_max_s`. All state is restored on return.
    """
    if built.step != built.live:
        return StepParts(parts_note=ONE_GRAPH)
    parts = built.state.parts()
    calls = calls_for(budget.block_s, latency_s, len(parts) * reading_cost(device.clock))
    deadline = device.clock() + budget.timed_max_s
    rounds: dict[str, list[float]] = {}
    with built.kept(), quiet_gc():
        redraw = memory_layout.anew(built.tensors(), device, seed, built.state.restore)
        for _ in range(budget.clock_rounds):
            held = redraw()
            for _ in range(settling(latency_s)):
                _step(parts, device)
            samples = [_step(parts, device) for _ in range(calls)]
            del held
            for name in samples[0]:
                rounds.setdefault(name, []).append(median(each[name] for each in samples))
            if device.clock() > deadline:
                break
    columns = {name: tuple(values) for name, values in rounds.items()}
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
