"""Splits the gap between eager and a compiled mode into steps that are measured, not inferred.

In one process, on one module and one set of inputs, variants are called in the same rounds. Each
differs from the one before by one thing, so what it saves or adds is the difference of their
times, and the steps add up to the gap. Their order is that of a call, whose layers follow each
other. `bench.passes.gap_variants` builds them; names and columns are in `bench.records.gap_steps`.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.evidence import compiler_counts
from modescope.bench.model.subject import Built
from modescope.bench.modes import backends, regions
from modescope.bench.passes import gap_variants
from modescope.bench.passes.gap_variants import NoSteps, Rung, Scene, own_frames
from modescope.bench.passes.gap_variants import rungs as asked
from modescope.bench.passes.operator_comparison import Operators, difference
from modescope.bench.records.cases import Case, Training
from modescope.bench.records.columns.passes import GapSteps
from modescope.bench.records.gap_steps import TRIALS
from modescope.bench.records.plans import Budget
from modescope.bench.timing import memory_layout
from modescope.bench.timing.comparison import warm_up
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.paired import latency_clock
from modescope.bench.timing.rounds import medians, orders, play, quiet_gc

RACE_S = 6.0
"""The longest time of the rounds: about 80 rounds of twelve variants of 1 ms."""

WARM_UP_S = 1.0
"""The longest warm-up, as each variant has been called and settles again before each block."""

UNGUARDED = "without guards the code gives other results: it serves more than one part of the model"
OTHER_RESULTS = "the mode, compiled once more, gives other results"

TRIED = {trial.name for trial in TRIALS}
"""The variants beside the ladder that may be left out."""

COMPILED_AGAIN = "torch compiled again while the steps were timed"

REASONS: tuple[tuple[Callable[[Case, Built], bool], str], ...] = (
    (lambda case, built: isinstance(case.options, Training), "steps are of inference alone"),
    (lambda case, built: bool(built.parts), "steps are of calls of one size alone"),
    (lambda case, built: built.evictor is not None, "steps are of warm data alone"),
    (
        lambda case, built: bool(built.subject.changes or built.subject.state),
        "forward changes its arguments or the module, so a recorded call cannot be repeated",
    ),
    (
        lambda case, built: bool(built.subject.switches or built.subject.alternates),
        "each call of the mode sets torch's switches, which the steps would share",
    ),
    (
        lambda case, built: backends.is_prebuilt(case.variant.mode),
        "steps are of code that this process compiles",
    ),
    (
        lambda case, built: (
            regions.are_asked(case.variant.mode) or case.variant.mode.backend is not None
        ),
        "steps are of Inductor's code for whole models alone",
    ),
    (
        lambda case, built: "isolate_recompiles" not in inspect.signature(torch.compile).parameters,
        "steps need torch 2.13, which keeps variants of one function apart",
    ),
)
"""Conditions under which a compiled mode has no steps, each with the reason."""


def read(
    built: Built, case: Case, device: Hardware, budget: Budget, seed: int, fusion: bool = False
) -> GapSteps:
    """Times all variants in the same rounds; returns their latencies, or why there are none.

    `built` is that of the case's compiled mode, after its first call. `fusion`: whether to compile
    its code without fusion, too. All state is restored on return.
    """
    for holds, reason in REASONS:
        if holds(case, built):
            return GapSteps(steps_note=reason)
    begun = device.clock()
    scene = Scene(built, case, device)
    with built.keep_state(), own_frames():
        try:
            known = list(_built(scene, asked(case.variant, fusion)))
        except NoSteps as error:
            return GapSteps(steps_note=str(error), steps_s=device.clock() - begun)
        rungs, steps = [rung for rung, _ in known], [step for _, step in known]
        unlike = _unlike(rungs, steps)
        compilations = compiler_counts.count_compilations()
        rounds = race(
            {rung.name: step for rung, step in zip(rungs, steps, strict=True)},
            device,
            budget,
            seed,
            memory_layout.make_redraw(built.tensors(), device, seed, built.state.restore),
            {rung.name for rung in rungs if rung.flushes},
        )
    if compilations():
        return GapSteps(steps_note=COMPILED_AGAIN, steps_s=device.clock() - begun)
    return GapSteps(
        steps=tuple(rounds),
        steps_rounds_s=tuple(chain.from_iterable(rounds.values())),
        steps_unlike=json.dumps(unlike),
        steps_s=device.clock() - begun,
    )


def _built(scene: Scene, asked: Sequence[Rung]) -> Iterator[tuple[Rung, Step]]:
    """Yields the variants; compiled ones only if their results are those of the mode.

    Code without guards that serves several blocks of a model gives other results, or fails. Raises
    NoSteps if one of the ladder does.
    """
    expected = None if scene.built.subject.random else scene.built.step()
    for rung in asked:
        step, agrees = None, True
        try:
            if (step := rung.build(scene)) is not None and rung.compiles and expected is not None:
                agrees = gap_variants.agree(step(), expected)
        except NoSteps:
            raise
        except Exception:
            if not rung.drops_guards:
                raise
            agrees = False
        if not agrees and rung.name not in TRIED:
            raise NoSteps(UNGUARDED if rung.drops_guards else OTHER_RESULTS)
        if agrees and step is not None:
            yield rung, step


def race(
    steps: Mapping[str, Step],
    device: Device,
    budget: Budget,
    seed: int,
    redraw: Redraw,
    flushed: set[str] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Times `steps` in the same rounds, in random balanced order; returns each one's latencies.

    They last as long as `budget` says, at most RACE_S. Those in `flushed` run with subnormal
    numbers flushed to zero. `redraw`: see `bench.timing.memory_layout`.
    """
    patience_s = min(budget.warmup_max_s, WARM_UP_S)
    shorter = replace(budget, warmup_max_s=patience_s)
    warmth = warm_up(list(steps.values()), device, shorter)

    def before(name: str) -> Redraw:
        def prepare() -> object:
            torch.set_flush_denormal(name in (flushed or ()))
            return redraw()

        return prepare if flushed else redraw

    clocks = [
        latency_clock(name, [step], device, budget, [call_s], before(name))
        for (name, step), call_s in zip(steps.items(), warmth.per_call_s, strict=True)
    ]
    try:
        with quiet_gc():
            planned = orders(clocks, budget.max_rounds, random.Random(seed))
            until_s = device.clock() + min(budget.timed_max_s, RACE_S)
            played = play(clocks, planned, device, until_s)
    finally:
        if flushed:
            torch.set_flush_denormal(False)
    return {clock.name: medians(played, place, 0) for place, clock in enumerate(clocks)}


class _Decomposed(Operators):
    """Records what composite operators are made of, which they hide under inference_mode alone."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return super().__torch_dispatch__(func, types, args, kwargs)


def _unlike(rungs: Sequence[Rung], steps: Sequence[Step]) -> dict[str, str]:
    """Returns the rungs whose call runs other operators than the one before, and which.

    Only those that should not: a switch may make torch take another path.
    """
    found, before = {}, Counter[str]()
    for rung, step in zip(rungs, steps, strict=True):
        if rung.name == "code":
            break
        with _Decomposed() as operators:
            step()
        names = Counter(operators.working)
        if rung.same_operators and names != before:
            found[rung.name] = difference(before, names)
        before = names
    return found
