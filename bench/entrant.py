"""A variant that enters the race: built on its own copy, called for the first time, observed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from bench import compiler_facts, evidence, graph_breaks, modes
from bench.compiler_facts import Generated
from bench.devices import Hardware
from bench.graph_breaks import GraphBreaks
from bench.memory.allocators import Peak, Watched
from bench.records import CAPTURING, Case, Plan, Training, Variant
from bench.subject import Subject, state_kept
from bench.training.recomputing import RECOMPUTING
from bench.training.trainer import start_of


@dataclass(frozen=True)
class Entrant:
    """A variant after its first call, and what was seen of it."""

    variant: Variant
    built: modes.Built
    first_call_s: float
    compiled: evidence.Compiled  # what the compiler did during that call
    broken: GraphBreaks | None  # of its graphs; None where unknown, or not compiled
    seen: evidence.Seen
    generated: Generated | None  # by the compiler during that call; None where nobody looked
    setup: Peak | None  # of memory during that call

    def facts(self, case: Case, device: Hardware, plan: Plan) -> evidence.Facts:
        """What tells whether the mode took effect; asked after all timing, as it may profile."""
        return evidence.Facts(
            self.variant,
            case.model.fullgraph,
            device.type,
            self.seen,
            self.compiled,
            self.broken,
            evidence.graph_launches(self.built.step, self.variant.mode, device),
            cold=plan.compile_cache == "cold",
        )


def enter(subject: Subject, variant: Variant, case: Case, device: Hardware, plan: Plan) -> Entrant:
    """The variant on its own copy of `subject`, and how long its first call took.

    Copying and casting weights come before; compiling, autotuning and capturing are included. The
    compiler records its own CUDA graphs with the second call, so there the first two count. The
    module's buffers, and in training all that is trained, are as they were when it returns.
    """
    own = _own(subject, variant, case.training)
    first = start_of(own.module) if case.training else None
    records_later = variant.mode.compile in CAPTURING and device.type == "cuda"
    before = evidence.compiled_so_far()
    code, memory = _watches(device, plan)
    breaks = graph_breaks.watch()
    with state_kept(own.module), code as watched, memory as taken, breaks as broken:
        device.synchronize()
        start = device.clock()
        built = modes.build(own, variant, case.model.fullgraph, device, case.training, first)
        for _ in range(2 if records_later else 1):
            built.step()
        device.synchronize()
        first_call_s = device.clock() - start
    compiled = evidence.compiled_so_far().since(before)
    built.settle()
    return Entrant(
        variant,
        built,
        first_call_s,
        compiled,
        _known(broken.found, compiled, variant),
        evidence.observe(built, device),
        generated=watched.generated if watched else None,
        setup=taken.found if taken else None,
    )


def _known(
    broken: GraphBreaks | None, compiled: evidence.Compiled, variant: Variant
) -> GraphBreaks | None:
    """What is known of breaks: that none was met where nothing was compiled does not count as 0."""
    if broken is None or not variant.mode.compiles:
        return None
    return broken if compiled.graphs or broken.sites else None


def _own(subject: Subject, variant: Variant, training: Training | None) -> Subject:
    """A copy that nobody else touches, in its dtype; in training, as it recomputes activations."""
    own = subject.cast(modes.weight_dtype(variant))
    if training is None:
        return own
    return Subject(RECOMPUTING[training.checkpoint](own.module), own.inputs)


def _watches(
    device: Hardware, plan: Plan
) -> tuple[
    AbstractContextManager[compiler_facts.Watch | None],
    AbstractContextManager[Watched[Peak] | None],
]:
    """Of what the passes want to know about the first call; they cost it next to nothing.

    Code is kept as it is written, bytes are added up per kernel, and a peak is read at the end.
    """
    return (
        compiler_facts.watch() if plan.profile else nullcontext(),
        device.allocator.watch_setup() if plan.memory else nullcontext(),
    )
