"""Splits the gap between eager and a compiled mode into steps that are measured, not inferred.

In one process, on one module and one set of inputs, variants are called in the same rounds. Each
differs from the one before by one thing, so what it saves or adds is the difference of their times,
and the steps add up to the gap:

    eager, its grad mode, [its autocast], the captured graphs, the compiler's code, the mode without
    guards, the mode

Their order is that of a call, whose layers follow each other; in another order they add up to
nearly the same.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.evidence import compiler_counts
from modescope.bench.model.subject import Built
from modescope.bench.modes import backends, modes, regions
from modescope.bench.modes.phases import phase_of
from modescope.bench.passes.operator_comparison import Operators
from modescope.bench.records.cases import Case, Mode, Training, Variant
from modescope.bench.records.columns.passes import GapSteps
from modescope.bench.records.plans import Budget
from modescope.bench.timing import memory_layout
from modescope.bench.timing.comparison import warm_up
from modescope.bench.timing.paired import latency_clock
from modescope.bench.timing.rounds import medians, orders, play, quiet_gc

GRAD_ONLY = ("aten.detach", "aten.alias")
"""Operators that only hide a tensor's history, which eager runs for gradients alone."""

COMPILED_AGAIN = "torch compiled again while the steps were timed"

REASONS: tuple[tuple[Callable[[Case, Built], bool], str], ...] = (
    (lambda case, built: isinstance(case.options, Training), "steps are of inference alone"),
    (lambda case, built: bool(built.parts), "steps are of calls of one size alone"),
    (
        lambda case, built: bool(built.subject.changes or built.subject.state),
        "forward changes its arguments or buffers, so that a recorded call cannot be repeated",
    ),
    (
        lambda case, built: bool(built.subject.switches or built.subject.alternates),
        "each call of the mode sets torch's switches, which the steps would share",
    ),
    (
        lambda case, built: backends.captures(case.variant.mode) or case.variant.mode.graph,
        "a captured graph has no steps of its own",
    ),
    (
        lambda case, built: (
            not backends.find(case.variant.mode).counted
            or regions.are_asked(case.variant.mode)
            or case.variant.mode.backend is not None
        ),
        "steps are known of Inductor's code of whole models alone",
    ),
    (
        lambda case, built: "isolate_recompiles" not in inspect.signature(torch.compile).parameters,
        "steps need torch 2.13, where variants of one function can be compiled apart",
    ),
)
"""Conditions under which a compiled mode has no steps, each with the reason."""


def why_not(case: Case, built: Built) -> str | None:
    """Returns why the gap to a compiled mode cannot be split; None if it can."""
    return next((reason for holds, reason in REASONS if holds(case, built)), None)


@dataclass
class Recorder:
    """Keeps the callables that a compiler made, with the arguments of one call of each."""

    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)
    recording: bool = False

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns `function`, which notes its calls while `recording`."""

        def called(*args: Any) -> Any:
            if self.recording:
                self.calls.append((function, args))
            return function(*args)

        called._boxed_call = getattr(function, "_boxed_call", False)  # type: ignore[attr-defined]
        return called

    def replay(self) -> None:
        """Makes the recorded calls in order, without what ran between them."""
        for function, args in self.calls:
            function(*args)


@dataclass(frozen=True)
class Ladder:
    """What variants are built of: the mode's own module, with its weights and inputs."""

    built: Built
    case: Case
    device: Hardware

    def eager(self, grad: str | None = None, autocast: bool | None = None) -> Step:
        """Returns a call neither compiled nor captured, with the mode's other axes."""
        mode = self.case.variant.mode.eager_mode(grad)
        return self._step(mode if autocast is None else replace(mode, autocast=autocast))

    def _step(self, mode: Mode, made: Callable[..., Any] | None = None) -> Step:
        case, built = self.case, self.built
        variant, phase = replace(case.variant, mode=mode), phase_of(case.options)
        start, whole = built.state.start, case.model.fullgraph
        own = modes.build(built.subject, variant, whole, self.device, phase, start, made)
        own.step()
        return own.step

    def compiled(self, **further: Any) -> Step:
        """Returns a call of the mode, compiled with these further options, apart from all else."""
        mode = self.case.variant.mode
        return self._step(mode, self._compile(options=self._options() | further))

    def recorded(self, eager: bool) -> Step:
        """Returns a call of the captured graphs alone, or of the compiler's code of them."""
        recorder, mode = Recorder(), self.case.variant.mode
        if eager:

            def keep(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
                return recorder.wrap(graph.forward)

            made, watched = self._compile(backend=keep), nullcontext()
        else:
            made, watched = self._compile(options=self._options()), _watch_inductor(recorder)
        with watched:
            call = self._step(mode, made)
        recorder.recording = True
        call()
        recorder.recording = False
        return modes.enter_contexts(recorder.replay, self.case.variant, self.device.type)

    def _options(self) -> dict[str, Any]:
        mode = self.case.variant.mode
        return torch._inductor.list_mode_options(mode.compile, mode.dynamic) | json.loads(
            mode.options
        )

    def _compile(self, **given: Any) -> Callable[..., Any]:
        # isolated, as guards are no part of what torch compares: the code without guards would
        # serve the mode, too
        return torch.compile(
            self.built.subject.module,
            fullgraph=self.case.model.fullgraph,
            dynamic=self.case.variant.mode.dynamic,
            isolate_recompiles=True,
            **given,
        )


def _watch_inductor(recorder: Recorder) -> AbstractContextManager[object]:
    from torch._inductor import compile_fx as module

    make = module.compile_fx

    def made(*args: Any, **named: Any) -> Any:
        return recorder.wrap(make(*args, **named))

    return mock.patch.object(module, "compile_fx", made)


@dataclass(frozen=True)
class Rung:
    """A variant: its column, how its call is built, and for which modes it differs from the last."""

    column: str
    build: Callable[[Ladder], Step]
    applies: Callable[[Variant], bool] = lambda variant: True
    same_operators: bool = False  # as the rung before must have, for the step to be one thing


RUNGS = (
    Rung("steps_eager_rounds_s", lambda ladder: ladder.eager("enabled", autocast=False)),
    Rung(
        "steps_grad_rounds_s",
        lambda ladder: ladder.eager(autocast=False),
        lambda variant: variant.mode.grad != "enabled",
        same_operators=True,
    ),
    Rung(
        "steps_autocast_rounds_s",
        lambda ladder: ladder.eager(),
        lambda variant: variant.mode.autocast,
    ),
    Rung("steps_graph_rounds_s", lambda ladder: ladder.recorded(eager=True)),
    Rung("steps_code_rounds_s", lambda ladder: ladder.recorded(eager=False)),
    Rung(
        "steps_unguarded_rounds_s",
        lambda ladder: ladder.compiled(guard_filter_fn=torch.compiler.skip_all_guards_unsafe),
    ),
    Rung("steps_mode_rounds_s", lambda ladder: ladder.built.step),
    Rung("steps_again_rounds_s", lambda ladder: ladder.compiled()),
)
"""The ladder, from eager to the mode, and the control."""


def read(built: Built, case: Case, device: Hardware, budget: Budget, seed: int) -> GapSteps:
    """Times all rungs in the same rounds; returns their latencies, or why there are none.

    `built` is that of the case's compiled mode, after its first call. There are as many rounds as
    fit into `budget.timed_max_s`. All state is restored on return.
    """
    if (reason := why_not(case, built)) is not None:
        return GapSteps(steps_note=reason)
    begun = device.clock()
    ladder = Ladder(built, case, device)
    rungs = [rung for rung in RUNGS if rung.applies(case.variant)]
    with built.keep_state(), _own_frames():
        steps = {rung.column: rung.build(ladder) for rung in rungs}
        other = _other_operators(rungs, steps)
        warmth = warm_up(list(steps.values()), device, budget)
        redraw = memory_layout.make_redraw(built.tensors(), device, seed, built.state.restore)
        clocks = [
            latency_clock(name, [step], device, budget, [call_s], redraw)
            for (name, step), call_s in zip(steps.items(), warmth.per_call_s, strict=True)
        ]
        compilations = compiler_counts.count_compilations()
        with quiet_gc():
            planned = orders(clocks, budget.max_rounds, random.Random(seed))
            played = play(clocks, planned, device, device.clock() + budget.timed_max_s)
    if compilations():
        return GapSteps(steps_note=COMPILED_AGAIN, steps_s=device.clock() - begun)
    rounds = {clock.name: medians(played, place, 0) for place, clock in enumerate(clocks)}
    return GapSteps(
        **rounds,
        steps_other_operators=json.dumps(other),
        steps_s=device.clock() - begun,
    )


@contextmanager
def _own_frames() -> Iterator[None]:
    """Lets torch compile the rungs beside the mode, however often it has compiled their function."""
    import torch._dynamo.config as config

    with config.patch(recompile_limit=64, fail_on_recompile_limit_hit=True):
        yield


def _other_operators(rungs: Sequence[Rung], steps: dict[str, Step]) -> list[str]:
    """Returns the rungs whose call runs other operators than the one before, but should not."""
    seen = {rung.column: _operators(steps[rung.column]) for rung in rungs[:3]}
    found = []
    for before, rung in zip(rungs, rungs[1:], strict=False):
        if rung.same_operators and seen[rung.column] != seen[before.column]:
            found.append(rung.column)
    return found


def _operators(step: Step) -> Counter[str]:
    with Operators() as operators:
        step()
    return Counter(name for name in operators.names if name not in GRAD_ONLY)
