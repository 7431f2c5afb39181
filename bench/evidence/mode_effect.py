"""Decides whether a mode took effect, from observations in the timed process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.evidence.observing import Observed, dtype_name, join_dtypes
from modescope.bench.modes import axes, backends, fp32_products
from modescope.bench.modes.modes import weight_dtype
from modescope.bench.records.cases import Mode, Variant, canonical_json
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.columns.compiling import CompiledCode, Regions

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
        "torch multiplied nothing in bf16",
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


@dataclass(frozen=True)
class KernelUse:
    """How a call used the kernels of an implementation (`mode.kernels`) other than the model's.

    `use` is a value of the column `kernel_use`; None: unknown, or not asked for.
    """

    use: str | None = None
    names: tuple[str, ...] = ()  # operators and kernels of its own that ran
    lost: str = ""  # those that could have run, as a remark in brackets

    def add_to(self, checks: Checks) -> Checks:
        """Returns `checks` with the columns of the use."""
        names = canonical_json(self.names) if self.use else None
        return replace(checks, kernel_use=self.use, kernel_names=names)


def breaks_summary(sites: Sequence[Site]) -> str:
    """A text like `Data-dependent branching at net.py:12 and 1 more`; `sites` must not be empty."""
    first = sites[0]
    at = f" at {first.place}" if first.place else ""
    more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
    return f"{first.reason}{at}{more}"


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
    runs_forward: bool | None = None  # whether a call runs the model's Python; None: not asked
    code: CompiledCode = field(default_factory=CompiledCode)  # of the first call
    kernels: KernelUse = field(default_factory=KernelUse)

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
        cast = dtype_name(weight_dtype(self.variant))
        return join_dtypes(cast if dtype == "float32" else dtype for dtype in self.built_dtypes)

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
