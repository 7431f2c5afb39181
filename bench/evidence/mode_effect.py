"""Decides whether a mode took effect, from observations in the timed process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any
from unittest import mock

import torch

from modescope.bench.devices.devices import Hardware, Step, prepare_call
from modescope.bench.model import compiler, trees
from modescope.bench.model.subject import Built
from modescope.bench.modes import attention, axes, backends, fp32_products, modes, regions
from modescope.bench.modes.axes import Called
from modescope.bench.modes.backends import Compiled
from modescope.bench.modes.modes import weight_dtype
from modescope.bench.modes.phase import Phase
from modescope.bench.records.cases import SWITCHED, Inference, Mode, Variant, canonical_json
from modescope.bench.records.columns import Checks, CompiledCode, Regions

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")

AUTOTUNE_COUNTERS = (
    "select_algorithm_autotune",
    "coordesc_tuning_bench",
    "cpp_templated_kernel_counter",
)
"""Inductor's counters of benchmarked choices, and of templates that were chosen."""

TUNED_BEFORE = "nothing was tuned in this run: it was tuned before, or there is nothing to choose"

SOME_BLOCKS = "only {0.regions_called} of {0.regions} blocks are called as modules and so compiled"

DOUBTS: tuple[tuple[Callable[[Facts], bool], str], ...] = (
    (
        lambda f: f.observed.weight_dtype != f.weight_dtype,
        "weights were {f.observed.weight_dtype} instead of {f.weight_dtype}",
    ),
    (
        lambda f: f.observed.products not in (None, f.products),
        "fp32 was multiplied in {f.observed.products} instead of {f.products}",
    ),
    (
        lambda f: f.compiles_optimizer and f.optimizer_graphs == 0,
        "torch.compile compiled nothing of the optimizer's step",
    ),
    (
        lambda f: f.rounds_products is False,
        "results have the bits of fp32: torch multiplied nothing in bf16",
    ),
    (
        lambda f: f.variant.dtype != "fp32" and not f.has_fp32,
        "no weight or input is in fp32, and {f.variant.dtype} changes no other",
    ),
    (
        lambda f: backends.replays_graphs(f.mode) and f.on_cpu,
        "CUDA graphs need a GPU: on a CPU this runs without CUDA graphs",
    ),
    (
        lambda f: backends.replays_graphs(f.mode) and not f.on_cpu and f.graph_launches == 0,
        "no CUDA graph was launched in a steady call",
    ),
)
"""Conditions under which a mode did not take effect, each with the reason in words. Axes
(`axes.doubts`) and a backend's entry in `BACKENDS` add their own."""


@dataclass(frozen=True)
class Site:
    """A place in the code where a graph of torch.compile ends although the model continues."""

    place: str | None  # "net.py:12"; None outside the model's code
    reason: str


@dataclass(frozen=True)
class GraphBreaks:
    """The graph breaks in the calls that were watched."""

    sites: tuple[Site, ...]  # in order of occurrence, each once; a line may have several
    in_eager: tuple[str, ...]  # functions left to Python, as a whole or from a break on

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks` with the columns of the breaks."""
        return replace(
            checks,
            graph_breaks=len(self.sites),
            graph_break_reasons=canonical_json([asdict(site) for site in self.sites]),
            eager_functions=canonical_json(self.in_eager),
        )


def breaks_summary(sites: Sequence[Site]) -> str:
    """A text like `Data-dependent branching at net.py:12 and 1 more`; `sites` must not be empty."""
    first = sites[0]
    at = f" at {first.place}" if first.place else ""
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    return f"{first.reason}{at}{more}"


@dataclass(frozen=True)
class Observed:
    """What was in effect when a step called the model: each axis, and dtypes of weights.

    `products` says how fp32 was multiplied (`fp32_products.used`), as the model left it. It is None
    if that is unknown, and where neither this variant nor another of the process asks for tf32 or
    bf32.
    """

    axes: dict[str, axes.Value]  # by axis, of those that a call shows (`bench.modes.axes`)
    weight_dtype: str  # all floating ones, such as "bfloat16, float64"; "none" without weights
    products: str | None = None
    attention: tuple[str, ...] | None = None  # operators of it that ran; None if unknown

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks` with the columns of what was seen."""
        usual = {name: values[0] for name, values in axes.settings().items()}
        others = {name: seen for name, seen in self.axes.items() if seen != usual.get(name, seen)}
        return replace(
            checks,
            seen_grad=str(self.axes["grad"]),
            seen_autocast=str(self.axes["autocast"]),
            seen_weight_dtype=self.weight_dtype,
            seen_attention=None if self.attention is None else canonical_json(self.attention),
            seen_axes=canonical_json(others) if others else None,
        )


def read_compiled() -> Compiled:
    """Reads the compiler's counters; all are 0 if nothing has imported the compiler."""
    if not compiler.is_imported():
        return Compiled(0, 0, 0, 0)
    counters = sys.modules["torch._dynamo.utils"].counters
    return Compiled(
        frames=counters["frames"]["total"],
        graphs=counters["stats"]["unique_graphs"],
        autotuned=sum(counters["inductor"][name] for name in AUTOTUNE_COUNTERS),
        graph_skips=counters["inductor"]["cudagraph_skips"],
    )


def count_compilations() -> Callable[[], int]:
    """Returns a function that returns the number of compilations since this call."""
    before = read_compiled()
    return lambda: read_compiled().since(before).compilations


def recompile_reasons() -> Callable[[], list[str]]:
    """Returns a function that returns torch's reasons to compile code again since this call."""
    if not compiler.is_imported():
        return list
    from modescope.bench.evidence import compilation  # which imports the compiler

    since = compilation.record()
    return lambda: compilation.recompile_reasons(since())


def observe(
    built: Built, variant: Variant, device: Hardware, generated: Iterable[str] = ()
) -> Observed:
    """Calls `built.live` once; returns torch's state at the moment when it calls the module.

    `variant` is that of `built`, and `generated` are the names of torch's operators in the code
    that was generated for it. An axis with a witness that is set gets a second call.

    The state is read just before compiled code, if any, is entered. If the timed step is a replay,
    `live` is the call that was captured. Restores what the call changes.
    """
    observed: list[Observed] = []
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    reads_products = built.subject.alternates or variant.dtype in SWITCHED
    kind = type(built.target)
    call = kind.__call__

    def watched(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if module is not built.target:
            return call(module, *args, **kwargs)
        observed.append(_state(built.subject.module, device.type))
        given.append((args, kwargs))
        result = call(module, *args, **kwargs)
        if reads_products:
            observed[0] = replace(observed[0], products=fp32_products.used())
        return result

    # not a hook, which a ScriptModule refuses
    with mock.patch.object(kind, "__call__", watched), built.keep_state():
        built.live()
    if not axes.witnessed(variant):
        return observed[0]
    called = _called(built, variant, device, *given[0], frozenset(generated))
    found = axes.witness(variant, called)
    ran = tuple(attention.names(called.operators)) if "attention" in found else None
    return replace(observed[0], axes={**observed[0].axes, **found}, attention=ran)


def _called(
    built: Built,
    variant: Variant,
    device: Hardware,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    generated: frozenset[str],
) -> Called:
    eager = replace(variant, mode=variant.mode.eager_mode())
    with built.keep_state():
        ran = in_eager = _operators(built.live)
        if variant.mode != eager.mode:
            plain = modes.build(built.subject, eager, False, device, Phase(Inference()))
            in_eager = _operators(plain.live)
    return Called(built.subject.module, args, kwargs, ran | generated, in_eager)


def _operators(step: Step) -> frozenset[str]:
    """Calls `step` under the profiler; returns the names of what it recorded on the host."""
    # not torch.profiler, which imports the compiler
    with torch.autograd.profiler.profile(use_cpu=True) as profile:
        step()
    return frozenset(str(event.name) for event in profile.function_events or [])


def rounds_products(built: Built, variant: Variant) -> bool | None:
    """Returns whether a live call in bf32 has other bits than the same call in fp32.

    None if `variant`, which is that of `built`, is not in bf32, or if a call returns no tensor.
    """
    if variant.dtype != "bf32":
        return None
    part = next(iter(built.parts.values()), built)
    results = []
    for dtype in ("fp32", "bf32"):  # the latter last, as it was
        with part.keep_state(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            call = prepare_call(part.live)
            fp32_products.use(dtype)
            results.append([each.detach().clone() for each in trees.tensors(call())])
    pairs = zip(*results, strict=True)
    return any(not _are_equal(*pair) for pair in pairs) if results[0] else None


def _are_equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether all elements are equal, or both no numbers."""
    if torch.equal(first, second):
        return True
    return bool(((first == second) | ((first != first) & (second != second))).all())


def runs_own_code(built: Built) -> bool:
    """Whether `built.live` runs the Python code of the module's, or a block's, compiled forward.

    Torch does so for new sizes once it has reached its limit of compilations.
    """
    module = built.subject.module
    parts = regions.compiled(module) or [module]
    own = {getattr(regions.original(part).forward, "__code__", None) for part in parts}
    seen: list[bool] = []

    def watch(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code in own and any(frame.f_locals.get(code.co_varnames[0]) is part for part in parts):
            seen.append(True)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        built.live()
    finally:
        sys.setprofile(before)
    return bool(seen)


def _state(module: torch.nn.Module, device_type: str) -> Observed:
    return Observed(axes.read(module, device_type), _list(weight_dtypes(module)))


def weight_dtypes(module: torch.nn.Module) -> frozenset[str]:
    """Returns the names of the floating dtypes of parameters, such as `float32`."""
    return frozenset(_name(w.dtype) for w in module.parameters() if w.is_floating_point())


def _list(dtypes: Iterable[str]) -> str:
    return ", ".join(sorted(set(dtypes))) or "none"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def graph_launches(step: Step, mode: Mode, device: Hardware) -> int | None:
    """Calls `step` under the profiler; returns how many CUDA graphs the call launches.

    Makes no call on a CPU (returns 0) and for a mode without CUDA graphs (returns None). Call it
    after all timing: profiling may slow later calls (CUPTI may stay attached).
    """
    if device.type == "cpu":
        return 0
    if not backends.replays_graphs(mode):
        return None
    with torch.profiler.profile(activities=list(device.activities)) as profile:
        step()
        device.synchronize()
    names = [str(event.name) for event in profile.events() or []]
    return sum(name.startswith(GRAPH_LAUNCHES) for name in names)


@dataclass(frozen=True)
class Facts:
    """All facts about a built variant that decide whether its mode took effect.

    `fullgraph`: whether graph breaks were errors. `compiled`: what the compiler did in the first
    call. `observed`: torch's state when a step called the model.
    """

    variant: Variant
    fullgraph: bool
    device_type: str
    compiled: Compiled
    cold: bool  # empty compiler caches: no tuning from earlier runs
    symbolic_sizes: int | None  # in the generated code; None where it was not read
    observed: Observed
    breaks: GraphBreaks | None  # None where unknown, or nothing was compiled
    graph_launches: int | None = None  # in a steady call; None until after timing
    switches: tuple[str, ...] = ()  # what changes the compiler, in words
    other_backend: bool = False  # whether one of them replaces the compiler's backend
    left_to_eager: str | None = None  # what the compiler gave up without an error, and why
    built_dtypes: frozenset[str] = frozenset({"float32"})  # of the weights, as they were built
    has_fp32: bool = True  # whether a weight, buffer or input was fp32, as it was built
    rounds_products: bool | None = None  # whether bf32 changes results; None where it is not asked
    compiles_optimizer: bool = False  # whether the optimizer's step was to be compiled
    optimizer_graphs: int = 0  # those of `compiled` that are of that step
    varies: bool = False  # calls have different sizes, each of which may be compiled
    regions: Regions = field(default_factory=Regions)  # blocks that are compiled one by one
    runs: int = 0  # of what the backend made (`made.Made`), in one call
    code: CompiledCode = field(default_factory=CompiledCode)  # of the first call

    @property
    def mode(self) -> Mode:
        """The mode that was requested."""
        return self.variant.mode

    @property
    def graphs(self) -> int:
        """The graphs that were compiled of the model."""
        return self.compiled.graphs - self.optimizer_graphs

    @property
    def backend(self) -> str:
        """What messages call the backend that was requested."""
        return self.mode.backend or "Inductor"

    @property
    def on_cpu(self) -> bool:
        """Whether the variant ran on a CPU, where there are no CUDA graphs."""
        return self.device_type == "cpu"

    @property
    def tuned_nothing(self) -> bool:
        """Whether autotuning found nothing to tune; False if an earlier run may have tuned."""
        nothing = self.compiled.autotuned == 0 and (self.cold or self.on_cpu)
        return nothing and backends.autotunes(self.mode)

    @property
    def weight_dtype(self) -> str:
        """The dtypes of weights that the mode demands, as in `Observed`."""
        cast = _name(weight_dtype(self.variant))
        return _list(cast if each == "float32" else each for each in self.built_dtypes)

    @property
    def products(self) -> str:
        """How the variant asks fp32 to be multiplied."""
        return fp32_products.of(self.variant.dtype)


@dataclass(frozen=True)
class ModeEffect:
    """Whether a mode took effect."""

    in_effect: bool
    note: str | None  # what torch ran instead, or what to know about the mode, if anything
    graph_launches: int | None  # as in `Facts`

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks` with the columns of the effect."""
        return replace(
            checks,
            in_effect=self.in_effect,
            in_effect_note=self.note,
            graph_launches=self.graph_launches,
        )


def effect(facts: Facts) -> ModeEffect:
    """Decides from `facts` whether a mode took effect."""
    of_axes = (line for axis in axes.AXES.values() for line in axis.doubts)
    lines = (*DOUBTS, *of_axes, *backends.find(facts.mode).doubts)
    doubts = axes.doubts(facts.variant, facts.observed.axes)
    doubts += [text.format(f=facts) for applies, text in lines if applies(facts)]
    notes = [*(doubts or _remarks(facts)), *facts.switches]
    return ModeEffect(not doubts, "; ".join(notes) or None, facts.graph_launches)


def _remarks(facts: Facts) -> list[str]:
    of_axes = (line for axis in axes.AXES.values() for line in axis.remarks)
    return [*_of_compiling(facts), *(text for applies, text in of_axes if applies(facts))]


def _of_compiling(facts: Facts) -> list[str]:
    if facts.breaks and (facts.breaks.sites or facts.breaks.in_eager):
        return [_describe_pieces(facts.breaks)]
    if backends.autotunes(facts.mode) and facts.compiled.autotuned == 0:
        return [TUNED_BEFORE]
    if (facts.regions.regions_called or 0) < (facts.regions.regions or 0):
        return [SOME_BLOCKS.format(facts.regions)]
    return []


def _describe_pieces(breaks: GraphBreaks) -> str:
    around = f" around {breaks_summary(breaks.sites)}" if breaks.sites else ""
    in_eager = f"; not compiled: {', '.join(breaks.in_eager)}" if breaks.in_eager else ""
    return f"compiled in pieces{around}{in_eager}"
