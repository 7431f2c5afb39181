"""Splits the gap between eager and a compiled mode into steps that are measured, not inferred.

In one process, on one module and one set of inputs, variants are called in the same rounds. Each
differs from the one before by one thing, so what it saves or adds is the difference of their
times, and the steps add up to the gap. Their order is that of a call, whose layers follow each
other. Names and columns are in `bench.records.gap_steps`.
"""

from __future__ import annotations

import inspect
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from unittest import mock

import torch

from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.evidence import compiler_counts
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import backends, modes, regions
from modescope.bench.modes.phases import phase_of
from modescope.bench.passes.operator_comparison import Operators, difference
from modescope.bench.records.cases import Case, Mode, Training, Variant
from modescope.bench.records.columns.passes import GapSteps
from modescope.bench.records.gap_steps import AGAIN, EAGER, TRIALS, UNFUSED
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

NOT_FUSED: dict[str, Any] = {
    "max_fusion_size": 1,  # of the scheduler; chains of pointwise operators are fused before it
    "realize_opcount_threshold": 0,
    "epilogue_fusion": False,
    "cpp.max_horizontal_fusion_size": 1,
}
"""Inductor's options with which each operator has a kernel of its own."""

UNCHANGED = "debug"
"""An option of Inductor that variants are given with the value that it has."""

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
class Scene:
    """What variants are built of: the mode's own module, with its weights and inputs."""

    built: Built
    case: Case
    device: Hardware

    @property
    def mode(self) -> Mode:
        """The mode whose gap is split."""
        return self.case.variant.mode

    def eager(self, grad: str | None = None, autocast: bool = False) -> Step:
        """Returns a call that is neither compiled nor captured, under these axes of the mode."""
        return self._first(replace(self.mode.eager_mode(grad), autocast=autocast))

    def compiled(
        self, captures: bool = False, subject: Subject | None = None, **changed: Any
    ) -> Step:
        """Returns a call of the mode with `changed` arguments of torch.compile.

        `captures`: whether it captures CUDA graphs as the mode does, or none. It is compiled apart
        from all else.
        """
        mode = self.mode if captures else replace(self.mode, graph=False)
        return self._first(mode, self._compile(captures, **changed), subject)

    def filtered(self, keeps: Callable[[Any], list[bool]]) -> Step | None:
        """Returns a call of the mode with the guards that torch's filter `keeps`, if not all."""
        kept = list[bool]()

        def noted(guards: Any) -> list[bool]:
            kept.extend(decided := keeps(guards))
            return decided

        step = self.compiled(captures=True, guard_filter_fn=noted)
        return None if all(kept) else step

    def recorded(self, backend: Callable[..., Any] | None = None, **options: Any) -> Step:
        """Returns a call of what was made of the captured graphs, without Dynamo.

        It was made by `backend`, or else by the mode's compiler with further `options`.
        """
        recorder = Recorder()
        if backend is None:
            made, watched = self._compile(captures=False, **options), _watch(recorder)
        else:
            made, watched = self._apart(backend=_kept_by(recorder, backend)), nullcontext()
        with watched:
            step = self._first(replace(self.mode, graph=False), made)
        recorder.recording = True
        step()
        recorder.recording = False
        return modes.enter_contexts(recorder.replay, self.case.variant, self.device.type)

    def _first(
        self, mode: Mode, made: Callable[..., Any] | None = None, subject: Subject | None = None
    ) -> Step:
        case, built = self.case, self.built
        variant, phase = replace(case.variant, mode=mode), phase_of(case.options)
        start, whole = built.state.start, case.model.fullgraph
        own = modes.build(subject or built.subject, variant, whole, self.device, phase, start, made)
        own.step()
        return own.step

    def _compile(self, captures: bool, static: bool = False, **options: Any) -> Any:
        given = dict(self.mode.compile_options)
        own = torch._inductor.list_mode_options(self.mode.compile, self.mode.dynamic)
        options = own | given.get("options", {}) | options
        # given again, so that torch does not take the mode's own code, which has equal options
        options.setdefault(UNCHANGED, getattr(torch._inductor.config, UNCHANGED))
        if not captures:
            options[backends.GRAPHS_OPTION] = False
        return self._apart(static, options=options)

    def _apart(self, static: bool = False, **given: Any) -> Any:
        # Isolated, because torch does not compare filters of guards: code without guards would
        # serve the mode, too, and give wrong results.
        sizes = {"dynamic": False if static else self.mode.dynamic}
        whole = {"fullgraph": self.case.model.fullgraph}
        apart: dict[str, Any] = {"isolate_recompiles": True}  # missing from torch's own types
        return torch.compile(self.built.subject.module, **whole | sizes | given | apart)


def _kept_by(recorder: Recorder, backend: Callable[..., Any]) -> Callable[..., Any]:
    return lambda graph, inputs: recorder.wrap(backend(graph, inputs))


def _watch(recorder: Recorder) -> AbstractContextManager[object]:
    """Lets `recorder` wrap what Inductor makes, by which options and cached code stay the same."""
    from torch._inductor import compile_fx as module

    make: Callable[..., Any] = module.compile_fx

    def outermost(*args: Any, **named: Any) -> Any:
        # given options, compile_fx calls itself by its name: the code would be called twice
        with mock.patch.object(module, "compile_fx", make):
            return recorder.wrap(make(*args, **named))

    return mock.patch.object(module, "compile_fx", outermost)


def _as_captured(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    return graph.forward


def _contiguous(scene: Scene) -> Step | None:
    inputs = scene.built.subject.inputs
    if all(tensor.is_contiguous() for tensor in inputs.tensors()):
        return None
    subject = replace(scene.built.subject, inputs=inputs.map(torch.Tensor.contiguous))
    return scene.compiled(captures=True, subject=subject)


def _flushable(scene: Scene) -> Step | None:
    """Returns the mode's call, unless flushing would miss its threads or is on already."""
    alone = scene.device.type == "cpu" and scene.case.threads == 1
    is_on = not (torch.tensor(1e-40) * 1).item()
    return scene.built.step if alone and not is_on else None


def _captures(variant: Variant) -> bool:
    return backends.replays_graphs(variant.mode)


@dataclass(frozen=True)
class Rung:
    """How a variant is built: for which modes, and what it must not change beside its own thing.

    `build` returns None where the variant would be the same as the mode.
    """

    name: str
    build: Callable[[Scene], Step | None]
    applies: Callable[[Variant], bool] = lambda variant: True
    same_operators: bool = False  # as the rung before
    flushes: bool = False  # whether subnormal numbers are flushed to zero in its calls


def _without_guards(name: str) -> Rung:
    return Rung(
        name,
        lambda scene: scene.filtered(getattr(torch.compiler, f"{name}_unsafe")),
        lambda variant: not variant.mode.graph,  # a replay has none
    )


RUNGS = (
    Rung(EAGER, lambda scene: scene.eager("enabled")),
    Rung(
        "autograd",
        lambda scene: scene.eager(),
        lambda variant: variant.mode.grad != "enabled",
        same_operators=True,
    ),
    Rung(
        "autocast", lambda scene: scene.eager(autocast=True), lambda variant: variant.mode.autocast
    ),
    Rung("python", lambda scene: scene.recorded(_as_captured), same_operators=True),
    Rung("code", lambda scene: scene.recorded()),
    Rung(
        "entry",
        lambda scene: scene.compiled(guard_filter_fn=torch.compiler.skip_all_guards_unsafe),
    ),
    Rung("guards", lambda scene: scene.compiled(), _captures),
)
"""The ladder from eager to the mode, which follows as the last one."""

BESIDE = (
    Rung(AGAIN, lambda scene: scene.compiled(captures=True)),
    *(_without_guards(trial.name) for trial in TRIALS if "guard" in trial.name),
    Rung("flush_denormal", _flushable, flushes=True),
    Rung("contiguous", _contiguous),
    Rung(
        "static",
        lambda scene: scene.compiled(captures=True, static=True),
        lambda variant: variant.mode.dynamic is True,
    ),
)
"""What is timed beside the ladder: the control, and single changes to the mode."""

WITHOUT_FUSION = Rung(UNFUSED, lambda scene: scene.recorded(**NOT_FUSED))
"""Compiles as long as the mode itself, so it is there only with `explain=fusion`."""


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
    own = Rung("capture" if _captures(case.variant) else "guards", lambda scene: scene.built.step)
    asked = [*RUNGS, own, *BESIDE, *([WITHOUT_FUSION] if fusion else [])]
    with built.keep_state(), _own_frames():
        rungs, steps = list[Rung](), list[Step]()
        for rung in asked:
            if rung.applies(case.variant) and (step := rung.build(scene)) is not None:
                rungs.append(rung)
                steps.append(step)
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


@contextmanager
def _own_frames() -> Iterator[None]:
    """Lets torch compile the variants beside the mode as it compiled that in its first call.

    However often it compiled their function, and though a call on an empty batch came since then,
    after which it would make sizes symbolic.
    """
    import torch._dynamo.config as config

    with config.patch(recompile_limit=64, automatic_dynamic_shapes=False):
        yield


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
