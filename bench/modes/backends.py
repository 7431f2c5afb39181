"""The table of backends: functions that turn a module into the code that a mode runs.

A new backend is a function and an entry in `BACKENDS`. The values of `mode.compile`, the refusals
and the checks that a mode took effect follow from the entry. The command line reads this file
without torch, so functions import torch inside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modescope.bench.modes import cache_program, package_program, regions
from modescope.bench.records.cases import Mode

if TYPE_CHECKING:
    import torch

    from modescope.bench.model.subject import Inputs


Doubt = tuple[Callable[[Any], bool], str]
"""A function of `evidence.mode_effect.Facts` that is true if a mode did not take effect, and the
reason: a template in which `f` stands for these facts."""


GRAPHS_OPTION = "triton.cudagraphs"
"""Inductor's option that makes it capture CUDA graphs, whatever its mode."""

GRAPHS_BACKEND = "cudagraphs"
"""The value of `mode.backend` that captures CUDA graphs."""

NAMED = "named"
"""The entry for all values of `mode.backend`."""


OF_ANY: tuple[Doubt, ...] = (
    (
        lambda f: f.runs_forward is True,
        "compile={f.mode.compile} built nothing: a call runs the model's own forward",
    ),
)
"""The doubt of a backend that names none of its own."""


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
what is called with these inputs instead of the module. That may have an attribute `made`, which
is a `made.Made`."""


@dataclass(frozen=True)
class Backend:
    """A compiler backend: how it builds the code of its modes, and what is known of these modes.

    `build` turns a module into what is called instead. `code` returns the expression that does so
    with `model` in a user's program, for a mode and whether graph breaks are errors. `doubts` are
    pairs of a condition on which a mode did not take effect, and the text that says so. A backend
    whose code runs the model's forward, such as one that quantises weights in place, has to name
    its own: by default that forward must not run.
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
    of_blocks: Callable[[Mode, bool], str] | None = None
    """Returns the arguments of torch.compile after the first one, for each block of a model; None:
    it takes no mode.regions."""
    freezes: bool = False  # whether it takes mode.freezing
    counted: bool = False  # whether torch counts what it makes, so that 0 graphs are nothing
    doubts: tuple[Doubt, ...] = OF_ANY
    before: tuple[str, ...] = ()
    """Functions ("module:name") like those of `Cache.before`, for what is made ahead of time, in a
    process of its own. What they make takes only the inputs that it was made for, and the process
    that measures compiles nothing. They find the folder in `caches.SAVED`."""
    exported: bool = (
        False  # whether torch.export made it, so that it knows no autocast or gradients
    )
    program: Callable[[Mode, bool, str], tuple[str, ...]] = lambda mode, named, context: ()
    """Lines before `code` in a user's program, for a mode, whether inputs are passed by name, and
    the expression of its contexts."""


def _torch_compile(
    module: torch.nn.Module, inputs: Inputs, mode: Mode, context: BuildContext
) -> Callable[..., Any]:
    import torch._dynamo.config  # here, because the command line reads this table without torch

    settings = torch._dynamo.config  # a whole graph would make errors of what they let run in eager
    whole = context.fullgraph and not (settings.disable or settings.suppress_errors)
    given = dict(mode.compile_options)
    if options := given.pop("options", None):  # torch takes either a mode or options
        own = torch._inductor.list_mode_options(mode.compile, mode.dynamic)
        given["options"] = own | options
    else:
        given["mode"] = mode.compile
    compile_it = partial(torch.compile, fullgraph=whole, **given)
    if regions.are_asked(mode):
        return regions.compile_blocks(module, compile_it)
    return compile_it(module)


def _torch_compile_arguments(mode: Mode, fullgraph: bool) -> str:
    """The arguments of torch.compile after the first one that differ from torch's defaults."""
    given: dict[str, Any] = {} if mode.compile == "default" else {"mode": mode.compile}
    given |= ({"fullgraph": True} if fullgraph else {}) | mode.compile_options
    if "options" in given and given.pop("mode", None):  # torch takes either a mode or options
        named = f'torch._inductor.list_mode_options("{mode.compile}")'
        added = ", ".join(f"{name!r}: {value!r}" for name, value in given.pop("options").items())
        return f"{arguments(given)}, options={named} | {{{added}}}"
    return arguments(given)


def _torch_compile_code(mode: Mode, fullgraph: bool) -> str:
    return f"torch.compile(model{_torch_compile_arguments(mode, fullgraph)})"


def arguments(named: Mapping[str, Any]) -> str:
    """Writes arguments by name as they follow others in a call: `, lr=0.1, mode="default"`."""
    texts = (f", {k}={json.dumps(v) if isinstance(v, str) else repr(v)}" for k, v in named.items())
    return "".join(texts)


OF_TORCH_COMPILE: tuple[Doubt, ...] = (
    (
        lambda f: f.regions.regions_called == 0,
        "the model calls none of its {f.regions.regions} blocks as a module, only parts of "
        "them, so nothing is compiled",
    ),
    (
        lambda f: f.graphs == f.compiled.loaded == 0 and f.regions.regions_called != 0,
        "torch.compile compiled nothing",
    ),
    (
        lambda f: f.graphs >= (f.regions.regions_called or math.inf) and not f.varies,
        "{f.regions.regions_called} blocks have {f.graphs} graphs, so they share none",
    ),
    (
        lambda f: f.graphs > 0 and f.other_backend,
        "torch.compile compiled with another backend than {f.backend}",
    ),
    (lambda f: f.left_to_eager is not None, "in eager ran {f.left_to_eager}"),
    (
        lambda f: f.fullgraph and f.graphs > 1 and not (f.varies or f.regions.regions),
        "torch.compile made {f.graphs} graphs instead of one",
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


def _load_saved(
    module: torch.nn.Module, inputs: Inputs, mode: Mode, context: BuildContext
) -> Callable[..., Any]:
    from modescope.bench.modes import saved_functions

    return saved_functions.load(module)


def _load(
    module: torch.nn.Module, inputs: Inputs, mode: Mode, context: BuildContext
) -> Callable[..., Any]:
    from modescope.bench.modes import packages

    return packages.load(inputs)


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
        of_blocks=_torch_compile_arguments,
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
    "aoti": Backend(
        _load,
        code=lambda mode, fullgraph: "run_package",
        modes=("aoti",),
        dynamic=False,
        before=("modescope.bench.case.packaging:build",),
        exported=True,
        program=package_program.lines,
        doubts=((lambda f: f.runs == 0, "no package ran"),),
    ),
    "aot": Backend(
        _load_saved,
        code=lambda mode, fullgraph: "partial(run_saved, model)",
        modes=("aot",),
        options=True,
        before=("modescope.bench.case.saving:save",),
        program=lambda mode, named, context: cache_program.saving(
            mode, named, context, lambda mode: arguments(mode.compile_options)
        ),
        doubts=((lambda f: f.runs == 0, "no saved function ran"),),
    ),
    NAMED: Backend(
        _torch_compile,
        code=_torch_compile_code,
        of_blocks=_torch_compile_arguments,
        counted=True,
        modes=(),
        doubts=OF_TORCH_COMPILE,
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
    return next(backend for backend in BACKENDS.values() if mode.compile in backend.modes)


def compiling(mode: Mode, fullgraph: bool, blocks: Sequence[str] = ()) -> str:
    """Returns the lines that compile `model` in a user's program, as `mode` does.

    `fullgraph`: whether graph breaks are errors. `blocks`: names of the blocks that are compiled
    instead of the model. For a row of a backend that is not in this table, the user has to fill in
    a function `build`.
    """
    if mode.compile in modes():
        backend = find(mode)
        if blocks and backend.of_blocks:
            return regions.code(blocks, backend.of_blocks(mode, fullgraph))
        return f"model = {backend.code(mode, fullgraph)}"
    return f"model = build(model)  # as compile: {mode.compile} in bench/modes/backends.py"


def program(mode: Mode, named: bool, context: str) -> tuple[str, ...]:
    """Returns the lines of a user's program before `compiling`, as `Backend.program` has them."""
    if mode.compile not in modes():
        return ()
    return find(mode).program(mode, named, context)


def is_prebuilt(mode: Mode) -> bool:
    """Whether another process makes the code of `mode` ahead of time, for inputs of one kind."""
    return bool(find(mode).before)


def needs_compiler(mode: Mode) -> bool:
    """Whether the process that runs `mode` imports torch's compiler."""
    return mode.compiles and not find(mode).exported


def compiles_here(mode: Mode) -> bool:
    """Whether the process that measures `mode` compiles it."""
    return mode.compiles and not is_prebuilt(mode)


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
