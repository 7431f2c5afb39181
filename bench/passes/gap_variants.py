"""Builds the variants between eager and a compiled mode.

Their names are in `bench.records.gap_steps`. A new step is a line of RUNGS, a new change to the
mode a line of BESIDE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch

from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.model import torch_settings, trees
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import backends, modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case, Mode, Variant
from modescope.bench.records.gap_steps import AGAIN, EAGER, TRIALS, UNFUSED

NOT_FUSED: dict[str, Any] = {
    "max_fusion_size": 1,  # of the scheduler; chains of pointwise operators are fused before it
    "realize_opcount_threshold": 0,
    "epilogue_fusion": False,
    "cpp.max_horizontal_fusion_size": 1,
}
"""Inductor's options with which each operator has a kernel of its own."""

UNCHANGED = "debug"
"""An option of Inductor that variants are given with the value that it has."""


class NoSteps(Exception):
    """A variant that would not be what its name says, in words that end up in `steps_note`."""


UNREPEATABLE = "what was compiled changes its arguments, so a recorded call cannot be repeated"
OF_FUNCTIONS = "the graph calls functions (such as a checkpoint), which run otherwise outside of it"


@dataclass
class Recorder:
    """Keeps the callables that a compiler made, with the arguments of one call of each."""

    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = field(default_factory=list)
    recording: bool = False
    of_functions: bool = False  # whether a graph calls functions, not operators alone

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

    def check(self) -> None:
        """Replays once; raises NoSteps if that changes an argument, weights aside."""
        given = [
            tensor
            for tensor in trees.tensors([args for _, args in self.calls])
            if not isinstance(tensor, torch.nn.Parameter)
        ]
        before = [tensor.clone() for tensor in given]
        self.replay()
        if not agree(given, before, within=0.0):
            raise NoSteps(UNREPEATABLE)


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
        if recorder.of_functions:
            raise NoSteps(OF_FUNCTIONS)
        recorder.recording = True
        step()
        recorder.recording = False
        modes.enter_contexts(recorder.check, self.case.variant, self.device.type)()
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
    def made(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        targets = [node.target for node in graph.graph.nodes]
        functions = [t for t in targets if isinstance(t, torch._ops.HigherOrderOperator)]
        recorder.of_functions |= bool(functions)
        return recorder.wrap(backend(graph, inputs))

    return made


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
    tensors = inputs.tensors()
    dense = all(tensor.layout == torch.strided for tensor in tensors)
    if not dense or all(tensor.is_contiguous() for tensor in tensors):
        return None
    subject = replace(scene.built.subject, inputs=inputs.map(torch.Tensor.contiguous))
    return scene.compiled(captures=True, subject=subject)


def _flushable(scene: Scene) -> Step | None:
    """Returns the mode's call, unless flushing would miss its threads or is on already."""
    alone = scene.device.type == "cpu" and scene.case.threads == 1
    return scene.built.step if alone and not torch_settings.flushes() else None


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
    compiles: bool = False  # whether it is compiled code, whose results are those of the mode
    drops_guards: bool = False
    flushes: bool = False  # whether subnormal numbers are flushed to zero in its calls


def _without_guards(name: str) -> Rung:
    return Rung(
        name,
        lambda scene: scene.filtered(getattr(torch.compiler, f"{name}_unsafe")),
        lambda variant: not variant.mode.graph,  # a replay has none
        compiles=True,
        drops_guards=True,
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
        compiles=True,
        drops_guards=True,
    ),
    Rung("guards", lambda scene: scene.compiled(), _captures, compiles=True),
)
"""The ladder from eager to the mode, which follows as the last one."""

BESIDE = (
    Rung(AGAIN, lambda scene: scene.compiled(captures=True), compiles=True),
    *(_without_guards(trial.name) for trial in TRIALS if "guard" in trial.name),
    Rung("flush_denormal", _flushable, flushes=True),
    Rung("contiguous", _contiguous, compiles=True),
    Rung(
        "static",
        lambda scene: scene.compiled(captures=True, static=True),
        lambda variant: variant.mode.dynamic is True,
        compiles=True,
    ),
)
"""What is timed beside the ladder: the control, and single changes to the mode."""

WITHOUT_FUSION = Rung(UNFUSED, lambda scene: scene.recorded(**NOT_FUSED))
"""Compiles as long as the mode itself, so it is there only with `explain=fusion`."""


def rungs(variant: Variant, fusion: bool) -> list[Rung]:
    """Returns what to build for a compiled mode: its ladder, which ends with it, and the others.

    `fusion`: whether its code without fusion is one of them.
    """
    mode = Rung("capture" if _captures(variant) else "guards", lambda scene: scene.built.step)
    every = (*RUNGS, mode, *BESIDE, *([WITHOUT_FUSION] if fusion else []))
    return [rung for rung in every if rung.applies(variant)]


def agree(one: Any, other: Any, within: float = 0.01) -> bool:
    """Whether the tensors in two results differ by at most this share of each one's largest value.

    Other kernels may round otherwise.
    """
    pairs = list(zip(trees.tensors(one), trees.tensors(other), strict=True))
    return all(_is_near(left, right, within) for left, right in pairs)


def _is_near(one: torch.Tensor, other: torch.Tensor, within: float) -> bool:
    if one.shape != other.shape or not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    finite = other[other.isfinite()]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=within * largest, equal_nan=True)


@contextmanager
def own_frames() -> Iterator[None]:
    """Lets torch compile the variants beside the mode as it compiled that in its first call.

    However often it compiled their function, and though a call on an empty batch came since then,
    after which it would make sizes symbolic.
    """
    import torch._dynamo.config as config

    with config.patch(recompile_limit=64, automatic_dynamic_shapes=False):
        yield
