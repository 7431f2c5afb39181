"""Did the mode do what its name says? Observed in the process that is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import counters

from bench import graph_breaks
from bench.devices import Hardware, Step
from bench.graph_breaks import GraphBreaks
from bench.modes import DTYPES, Built, weight_dtype
from bench.records import Mode, Variant

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")

AUTOTUNE_COUNTERS = (
    "select_algorithm_autotune",
    "coordesc_tuning_bench",
    "cpp_templated_kernel_counter",
)
"""Inductor's counters of choices that were benchmarked or templates that came of them."""


@dataclass(frozen=True)
class Seen:
    """State of torch where the step calls the model, and what is handed to it."""

    grad: str
    autocast: str  # dtype, or "none"
    weight_dtype: str  # of the first floating weight; "none" without weights


@dataclass(frozen=True)
class Compiled:
    """What the compiler has done so far in this process."""

    frames: int  # pieces of code looked at; torch counts none under fullgraph
    graphs: int
    autotuned: int
    graph_skips: int  # pieces for which the compiler gave up on CUDA graphs

    @property
    def compilations(self) -> int:
        """How often the compiler was called; frames and graphs each miss some."""
        return max(self.frames, self.graphs)

    def since(self, earlier: Compiled) -> Compiled:
        """What came on top of `earlier`."""
        return Compiled(
            self.frames - earlier.frames,
            self.graphs - earlier.graphs,
            self.autotuned - earlier.autotuned,
            self.graph_skips - earlier.graph_skips,
        )


def compiled_so_far() -> Compiled:
    """Reads the compiler's counters."""
    return Compiled(
        frames=counters["frames"]["total"],
        graphs=counters["stats"]["unique_graphs"],
        autotuned=sum(counters["inductor"][name] for name in AUTOTUNE_COUNTERS),
        graph_skips=counters["inductor"]["cudagraph_skips"],
    )


def observe(built: Built, device: Hardware) -> Seen:
    """Makes the live call once (the one that was captured, where the step is a replay), witnessed.

    The witness is a hook on what the step calls, so it stands outside of compiled code and is gone
    afterwards without a trace.
    """
    witnessed: list[Seen] = []

    def witness(target: torch.nn.Module, args: Any) -> None:
        witnessed.append(_look(built.subject.module, device.type))

    hook = built.target.register_forward_pre_hook(witness)
    with hook, built.kept():
        built.live()
    return witnessed[0]


def _look(module: torch.nn.Module, device_type: str) -> Seen:
    grad = "enabled" if torch.is_grad_enabled() else "no_grad"
    if torch.is_inference_mode_enabled():
        grad = "inference_mode"
    autocast = (
        _name(torch.get_autocast_dtype(device_type))
        if torch.is_autocast_enabled(device_type)
        else "none"
    )
    weights = [w.dtype for w in module.parameters() if w.is_floating_point()]
    return Seen(grad, autocast, _name(weights[0]) if weights else "none")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def graph_launches(step: Step, mode: Mode, device: Hardware) -> int | None:
    """CUDA graph launches in one steady call; None where there is none to be proven.

    Profiling may slow later work (CUPTI may stay attached), so this comes after all timing.
    """
    if device.type == "cpu":
        return 0
    return launches_seen(step, device) if mode.uses_graphs else None


def launches_seen(step: Step, device: Hardware) -> int:
    """CUDA graph launches in one call, as the profiler sees them."""
    with torch.profiler.profile(activities=list(device.activities)) as profile:
        step()
        device.synchronize()
    names = [str(event.name) for event in profile.events() or []]
    return sum(name.startswith(GRAPH_LAUNCHES) for name in names)


@dataclass(frozen=True)
class Facts:
    """All that is known about a built variant."""

    variant: Variant
    fullgraph: bool
    device_type: str
    seen: Seen
    compiled: Compiled
    broken: GraphBreaks | None
    graph_launches: int | None
    cold: bool  # empty compiler caches: nothing was tuned in an earlier run

    @property
    def mode(self) -> Mode:
        """The axes that were asked for."""
        return self.variant.mode

    @property
    def on_cpu(self) -> bool:
        """Whether there are no CUDA graphs and nothing to tune."""
        return self.device_type == "cpu"

    @property
    def expected(self) -> Seen:
        """What should have been seen."""
        autocast = _name(DTYPES[self.variant.dtype]) if self.mode.autocast else "none"
        has_weights = self.seen.weight_dtype != "none"
        weights = _name(weight_dtype(self.variant)) if has_weights else "none"
        return Seen(self.mode.grad, autocast, weights)


Doubt = tuple[Callable[[Facts], bool], str]

DOUBTS: tuple[Doubt, ...] = (
    (
        lambda f: f.seen.grad != f.expected.grad,
        "the model ran under {f.seen.grad} instead of {f.expected.grad}",
    ),
    (
        lambda f: f.seen.autocast != f.expected.autocast,
        "autocast was {f.seen.autocast} instead of {f.expected.autocast}",
    ),
    (
        lambda f: f.seen.weight_dtype != f.expected.weight_dtype,
        "weights were {f.seen.weight_dtype} instead of {f.expected.weight_dtype}",
    ),
    (
        lambda f: f.mode.compile != "none" and f.compiled.graphs == 0,
        "torch.compile compiled nothing",
    ),
    (
        lambda f: f.mode.compile != "none" and f.fullgraph and f.compiled.graphs > 1,
        "torch.compile made {f.compiled.graphs} graphs instead of one",
    ),
    (
        lambda f: f.mode.uses_graphs and f.on_cpu,
        "CUDA graphs need a GPU: on a CPU this runs without them",
    ),
    (
        lambda f: f.mode.uses_graphs and not f.on_cpu and f.graph_launches == 0,
        "no CUDA graph was launched in a steady call",
    ),
    (
        lambda f: f.mode.uses_graphs and not f.on_cpu and f.compiled.graph_skips > 0,
        "torch gave up on CUDA graphs for {f.compiled.graph_skips} piece(s) of the model",
    ),
    (
        lambda f: f.mode.autotunes and f.compiled.autotuned == 0 and (f.cold or f.on_cpu),
        "autotuning found nothing to choose between: the kernels are those of compile=default",
    ),
)


def doubts(facts: Facts) -> str | None:
    """Everything that torch gave instead of what the mode's name says; None if it took effect."""
    found = [text.format(f=facts) for applies, text in DOUBTS if applies(facts)]
    return "; ".join(found) or None


def remark(facts: Facts) -> str | None:
    """What is worth knowing about a mode that did take effect."""
    if facts.broken and (facts.broken.sites or facts.broken.in_eager):
        return _in_pieces(facts.broken)
    if facts.mode.autotunes and facts.compiled.autotuned == 0:
        return "nothing was tuned in this run: it was before, or there is nothing to choose between"
    return None


def _in_pieces(broken: GraphBreaks) -> str:
    """`compiled in pieces around Data-dependent branching at net.py:12`, and what is in eager."""
    around = f" around {graph_breaks.summary(broken.sites)}" if broken.sites else ""
    in_eager = f"; not compiled: {', '.join(broken.in_eager)}" if broken.in_eager else ""
    return f"compiled in pieces{around}{in_eager}"
