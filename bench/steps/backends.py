"""The table of backends: functions that turn a module into the code that a mode runs.

A new backend is a function and an entry in `BACKENDS`. The values of `mode.compile`, the refusals
and the checks that a mode took effect follow from the entry. The command line reads this file
without torch, so functions import torch inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modescope.bench.records.cases import Mode

if TYPE_CHECKING:
    import torch

    from modescope.bench.steps.subject import Inputs


@dataclass(frozen=True)
class Compiled:
    """Counts of what torch's compiler has done in this process.

    `graphs`: graphs compiled. `autotuned`: choices of kernels that Inductor benchmarked against
    each other, and kernel templates that it chose.
    """

    frames: int  # code frames examined; torch counts none under fullgraph
    graphs: int
    autotuned: int
    graph_skips: int  # graphs that the compiler runs without CUDA graphs

    @property
    def compilations(self) -> int:
        """How often the compiler was called: the larger of two counts that each miss some calls."""
        return max(self.frames, self.graphs)

    def since(self, earlier: Compiled) -> Compiled:
        """Returns these counts minus the counts `earlier`."""
        return Compiled(
            *(getattr(self, each.name) - getattr(earlier, each.name) for each in fields(self))
        )


Doubt = tuple[Callable[[Any], bool], str]
"""A function of `evidence.mode_effect.Facts` that is true if a mode did not take effect, and the
reason: a template in which `f` stands for these facts."""


GRAPHS_OPTION = "triton.cudagraphs"
"""Inductor's option that makes it capture CUDA graphs, whatever its mode."""

GRAPHS_BACKEND = "cudagraphs"
"""The value of `mode.backend` that captures CUDA graphs."""

NAMED = "named"
"""The entry for all values of `mode.backend`."""


@dataclass(frozen=True)
class BuildContext:
    """What a backend may need beside a module, its inputs and the mode.

    `device_type`: where module and inputs are. `fullgraph`: whether graph breaks are errors.
    `make_folder` returns an empty folder, which lasts as long as the process.
    """

    device_type: str
    fullgraph: bool
    make_folder: Callable[[], Path]


Build = Callable[["torch.nn.Module", "Inputs", Mode, BuildContext], Callable[..., Any]]
"""A function of a module, the inputs of its first call, a mode, and a `BuildContext`, that returns
what is called with these inputs instead of the module."""


@dataclass(frozen=True)
class Backend:
    """A compiler backend: how it builds the code of its modes, and what is known of these modes.

    `build` turns a module into what is called instead. `code` returns the expression that does so
    with `model` in a user's program, for a mode and whether graph breaks are errors. `doubts` are
    pairs of a condition on which a mode did not take effect, and the text that says so.
    """

    build: Build
    code: Callable[[Mode, bool], str]
    modes: tuple[str, ...]  # values of mode.compile; none if mode.backend chooses it
    capturing: Mapping[str, str] = field(default_factory=dict)
    """Maps each mode that captures CUDA graphs by itself to the mode that runs the same kernels
    without graphs."""
    autotuning: tuple[str, ...] = ()  # the modes that benchmark kernels against each other
    dynamic: bool = True  # whether it takes mode.dynamic
    options: bool = False  # whether it takes mode.options
    freezes: bool = False  # whether it takes mode.freezing
    counted: bool = False  # whether `Compiled` counts what it makes, so that 0 graphs are nothing
    doubts: tuple[Doubt, ...] = ()


def _torch_compile(
    module: torch.nn.Module, inputs: Inputs, mode: Mode, context: BuildContext
) -> Callable[..., Any]:
    import torch._dynamo.config  # here, because the command line reads this table without torch

    settings = torch._dynamo.config  # a whole graph would make errors of what they let run in eager
    whole = context.fullgraph and not (settings.disable or settings.suppress_errors)
    given = dict(mode.compile_options)
    if options := given.pop("options", None):  # torch takes either a mode or options
        own = torch._inductor.list_mode_options(mode.compile, mode.dynamic)
        return torch.compile(module, options=own | options, fullgraph=whole, **given)
    return torch.compile(module, mode=mode.compile, fullgraph=whole, **given)


def _torch_compile_code(mode: Mode, fullgraph: bool) -> str:
    """The call that compiles the model, with the arguments that differ from torch's defaults."""
    given: dict[str, Any] = {} if mode.compile == "default" else {"mode": mode.compile}
    given |= ({"fullgraph": True} if fullgraph else {}) | mode.compile_options
    if "options" in given and given.pop("mode", None):  # torch takes either a mode or options
        named = f'torch._inductor.list_mode_options("{mode.compile}")'
        added = ", ".join(f"{name!r}: {each!r}" for name, each in given.pop("options").items())
        return f"torch.compile(model{arguments(given)}, options={named} | {{{added}}})"
    return f"torch.compile(model{arguments(given)})"


def arguments(named: Mapping[str, Any]) -> str:
    """Writes arguments by name as they follow others in a call: `, lr=0.1, mode="default"`."""
    texts = (f", {k}={json.dumps(v) if isinstance(v, str) else repr(v)}" for k, v in named.items())
    return "".join(texts)


OF_TORCH_COMPILE: tuple[Doubt, ...] = (
    (lambda f: f.compiled.graphs == 0, "torch.compile compiled nothing"),
    (
        lambda f: f.compiled.graphs > 0 and f.other_backend,
        "torch.compile compiled with another backend than {f.backend}",
    ),
    (lambda f: f.left_to_eager is not None, "in eager ran {f.left_to_eager}"),
    (
        lambda f: f.fullgraph and f.compiled.graphs > 1 and not f.varies,
        "torch.compile made {f.compiled.graphs} graphs instead of one",
    ),
    (
        lambda f: f.mode.dynamic is True and f.symbolic_sizes == 0,
        "no size is symbolic: the code is compiled for these sizes only",
    ),
    (
        lambda f: captures(f.mode) and not f.on_cpu and f.compiled.graph_skips > 0,
        "torch uses no CUDA graph for {f.compiled.graph_skips} piece(s) of the model",
    ),
)

BACKENDS = {
    "none": Backend(
        lambda module, inputs, mode, context: module,
        code=lambda mode, fullgraph: "model",
        modes=("none",),
        dynamic=False,
    ),
    "inductor": Backend(
        _torch_compile,
        code=_torch_compile_code,
        options=True,
        freezes=True,
        counted=True,
        modes=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
        capturing={
            "reduce-overhead": "default",
            "max-autotune": "max-autotune-no-cudagraphs",
        },
        autotuning=("max-autotune", "max-autotune-no-cudagraphs"),
        doubts=(
            *OF_TORCH_COMPILE,
            (
                lambda f: f.tuned_nothing,
                "autotuning had nothing to choose between: the kernels are those of "
                "compile=default",
            ),
        ),
    ),
    NAMED: Backend(
        _torch_compile, code=_torch_compile_code, modes=(), counted=True, doubts=OF_TORCH_COMPILE
    ),
}


def modes() -> tuple[str, ...]:
    """Returns all values of `mode.compile`."""
    return tuple(mode for backend in BACKENDS.values() for mode in backend.modes)


def capturing() -> frozenset[str]:
    """Returns the values of `mode.compile` whose backend captures CUDA graphs by itself."""
    return frozenset(mode for backend in BACKENDS.values() for mode in backend.capturing)


def find(mode: Mode) -> Backend:
    """Returns the backend of `mode.compile`, or the entry NAMED if `mode.backend` is set."""
    if mode.backend is not None:
        return BACKENDS[NAMED]
    return next(each for each in BACKENDS.values() if mode.compile in each.modes)


def compiling(mode: Mode, fullgraph: bool) -> str:
    """Returns the expression that compiles `model` in a user's program, as `mode` does.

    `fullgraph`: whether graph breaks are errors. For a row of a backend that is not in this table,
    the user has to fill in a function `build`.
    """
    if mode.compile in modes():
        return find(mode).code(mode, fullgraph)
    return f"build(model)  # as compile: {mode.compile} in bench/steps/backends.py"


def captures(mode: Mode) -> bool:
    """Whether the backend of `mode` captures CUDA graphs by itself."""
    return captures_graphs(mode.compile, mode.compile_options)


def captures_graphs(compile_mode: str, given: Mapping[str, Any]) -> bool:
    """Whether a value of `mode.compile` with these `compile_options` captures CUDA graphs."""
    if "backend" in given:
        return bool(given["backend"] == GRAPHS_BACKEND)
    return bool(given.get("options", {}).get(GRAPHS_OPTION, compile_mode in capturing()))


def drop_graphs(mode: Mode) -> Mode:
    """Returns the mode with the same kernels whose backend captures no CUDA graphs by itself.

    That is `mode` itself if its backend captures none. A capture by hand (`mode.graph`) stays.
    """
    return replace(mode, compile=find(mode).capturing.get(mode.compile, mode.compile))


def replays_graphs(mode: Mode) -> bool:
    """Whether calls of `mode` should replay a CUDA graph, captured by hand or by the backend."""
    return mode.graph or captures(mode)


def autotunes(mode: Mode) -> bool:
    """Whether the backend of `mode` should benchmark kernels against each other."""
    return mode.compile in find(mode).autotuning
