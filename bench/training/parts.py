"""Where does a step of training spend its time? Its parts, timed in a pass of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench import placement
from bench.devices import Device
from bench.modes import Built
from bench.records import Budget
from bench.rounds import quiet_gc, settling
from bench.timers import calls_for, reading_cost
from bench.training.optimizers import unscales
from bench.training.trainer import Trainer

ONE_GRAPH = "the whole step is one captured graph, which has no parts that could be waited for"
FUSED_UNSCALES = "the fused optimizer unscales gradients itself, which is part of its time"

Samples = tuple[float, ...]
Part = tuple[str, Callable[[Any], Any]]  # the column that its time belongs to; loss -> loss


@dataclass(frozen=True)
class Parts:
    """Columns of `bench.findings.Trained`: seconds per block, None where a part is not there."""

    forward_rounds_s: Samples | None = None
    backward_rounds_s: Samples | None = None
    optimizer_rounds_s: Samples | None = None
    scaler_rounds_s: Samples | None = None
    parts_note: str | None = None


def read(built: Built, device: Device, budget: Budget, seed: int, latency_s: float) -> Parts:
    """The parts of steps that take about `latency_s`, each waited for, one value per block.

    Waiting for each keeps the host from running ahead, so on a GPU they add up to more than the
    step that was timed. Blocks are as those of `bench.clocks`: each from the first step, its memory
    placed anew, and fewer of them where they do not fit in `budget.timed_max_s`. After the last all
    is as before.
    """
    trainer = built.trainer
    assert trainer is not None
    if built.step != built.live:
        return Parts(parts_note=ONE_GRAPH)
    parts = _parts(trainer)
    calls = calls_for(budget.block_s, latency_s, len(parts) * reading_cost(device.clock))
    deadline = device.clock() + budget.timed_max_s
    rounds: dict[str, list[float]] = {}
    with built.kept(), quiet_gc():
        redraw = placement.anew(built.tensors(), device, seed)
        for _ in range(budget.clock_rounds):
            trainer.restore()
            held = redraw()
            for _ in range(settling(latency_s)):
                _step(parts, device)
            samples = [_step(parts, device) for _ in range(calls)]
            del held
            for name in samples[0]:
                rounds.setdefault(name, []).append(median(each[name] for each in samples))
            if device.clock() > deadline:
                break
    fused = FUSED_UNSCALES if trainer.scaler and unscales(trainer.optimizer) else None
    return Parts(**{name: tuple(values) for name, values in rounds.items()}, parts_note=fused)


def _parts(trainer: Trainer) -> tuple[Part, ...]:
    """What `Trainer.step` does, cut between its parts."""
    clear: Part = ("optimizer_rounds_s", lambda loss: trainer.clear())
    forward: Part = ("forward_rounds_s", lambda loss: trainer.forward())
    backward: Part = ("backward_rounds_s", lambda loss: loss.backward())
    scaler, optimizer = trainer.scaler, trainer.optimizer
    if scaler is None:
        return clear, forward, backward, ("optimizer_rounds_s", lambda loss: optimizer.step())
    unscale: Part = ("scaler_rounds_s", lambda loss: scaler.unscale_(optimizer))
    return (
        clear,
        forward,
        ("scaler_rounds_s", scaler.scale),
        backward,
        *(() if unscales(optimizer) else (unscale,)),
        ("optimizer_rounds_s", lambda loss: scaler.step(optimizer)),
        ("scaler_rounds_s", lambda loss: scaler.update()),
    )


def _step(parts: tuple[Part, ...], device: Device) -> dict[str, float]:
    """One step, and how long each of its parts took; a part may come in several pieces."""
    seconds: dict[str, float] = {}
    loss = None
    device.synchronize()
    for name, part in parts:
        start = device.clock()
        loss = part(loss)
        device.synchronize()
        seconds[name] = seconds.get(name, 0.0) + device.clock() - start
    return seconds
