"""Prepares a mode on its own copy of the model, and measures its first call."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import torch

from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import kernel_use, mixed_calls, mode_effect, observing, watching
from modescope.bench.evidence.mode_effect import Facts, GraphBreaks
from modescope.bench.evidence.watching import CallEvidence
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import axes, backends, kernels, modes, regions
from modescope.bench.modes.phase import Phase
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.columns.compiling import FirstPass, GeneratedCode, Regions
from modescope.bench.records.plans import Plan
from modescope.bench.timing import timers

OWN_CODE = "the model's forward, which is not compiled any more"

AT_BREAK = "the code at a graph break ({})"

AT_LIMIT = "code that was compiled as often as torch's recompile_limit allows"


@dataclass(frozen=True)
class Contender:
    """A mode that takes part in a timing: the case's or its baseline's, after its first call.

    It has its own copy of the model. `facts` decide whether the mode took effect.
    """

    built: Built
    first_call_s: float
    facts: Facts
    seen: CallEvidence  # in the first call
    first_pass: FirstPass

    def replays_graphs(self, device: Hardware) -> bool:
        """Returns whether its calls should replay CUDA graphs, which only a profile can prove."""
        return device.type == "cuda" and backends.replays_graphs(self.facts.mode)

    def effect(self, device: Hardware) -> mode_effect.ModeEffect:
        """Returns whether the mode took effect. It may profile, so call it after all timing."""
        facts = self.facts
        launches = observing.graph_launches(self.built.step, facts.mode, device)
        if facts.switches and facts.compiled.graphs and not facts.left_to_eager:
            with self.built.keep_state():
                own = OWN_CODE if observing.runs_own_code(self.built) else None
            facts = replace(facts, left_to_eager=own)
        if facts.mode.compiles and not backends.find(facts.mode).counted:
            with self.built.keep_state():
                facts = replace(facts, runs_forward=observing.runs_own_code(self.built))
        return mode_effect.effect(replace(facts, graph_launches=launches))


def enter(
    subject: Subject, variant: Variant, case: Case, device: Hardware, plan: Plan
) -> Contender:
    """Builds `variant` on its own copy of `subject`, and measures its first call.

    `variant` is that of `case` or of its baseline. The time includes compiling, autotuning and
    capturing, but not copying and casting weights. If the compiler records CUDA graphs, the time
    covers two calls, because it records in the second. Buffers of the module, and all else that
    steps change, are restored on return. On CUDA an untimed call in eager comes before.
    """
    phase, fullgraph = phase_of(case.options), case.model.fullgraph
    if device.type == "cuda":
        meet_libraries(subject, variant, device, phase_of(case.options.of_baseline()))
    own = modes.prepare(subject, variant, phase)
    first = phase.start(own.module)
    _ = own.given  # copied here: only the copies that a graph reads are part of the first call
    records_later = backends.captures(variant.mode) and device.type == "cuda"
    memory = device.allocator if plan.memory else None
    compiles = backends.compiles_here(variant.mode) or case.options.compiles
    asked = kernels.is_asked(variant.mode) or axes.witnessed(variant)
    reads_code = plan.profile or bool(asked)
    with (
        keep_state(own.module),
        watching.watch(compiles, reads_code, memory=memory) as watch,
    ):
        device.synchronize()
        start = device.clock()
        if variant == case.variant:
            CACHES[plan.compile_cache].load()
        built = modes.build(own, variant, fullgraph, device, phase, first)
        device.synchronize()
        built_s = device.clock() - start
        calls, first_pass = 2 if records_later else 1, FirstPass()
        if built.parts:
            first_pass, calls_s = mixed_calls.first_pass(built, device, calls, watch)
        else:
            calls_s = sum(timers.latency(built.step, device, calls).samples_s)
        first_call_s = built_s + calls_s
    if built.parts and variant.mode.compiles:
        first_pass = mixed_calls.add_eager_calls(first_pass, built)
    seen, made = watch.evidence, built.made
    made.check(own.module)
    built.adjust_start()
    ran = made.runs()
    observed = observing.observe(
        built,
        variant,
        device,
        [*made.operators, *json.loads(seen.code.fallback_kernels or "[]")],
    )
    runs, blocks = made.runs() - ran, Regions()
    if regions.are_asked(variant.mode):
        with built.keep_state():
            blocks = regions.observe(own.module, built.live)
    facts = Facts(
        variant,
        fullgraph=fullgraph,
        varies=bool(subject.order),
        device_type=device.type,
        compiled=seen.compiled,
        cold=CACHES[plan.compile_cache].starts_empty,
        symbolic_sizes=seen.symbolic_sizes,
        observed=observed,
        runs=runs,
        compiles_optimizer=case.options.compiles,
        optimizer_graphs=seen.optimizer_graphs,
        rounds_products=observing.rounds_products(built, variant),
        built_dtypes=observing.weight_dtypes(subject.module),
        has_fp32=any(tensor.dtype is torch.float32 for tensor in subject.tensors()),
        breaks=_usable(seen, variant),
        regions=blocks,
        code=seen.compiled_code,
        kernels=kernel_use.observe(
            built, variant, subject, device, seen.code, _usable(seen, variant)
        ),
    )
    if compiles:
        facts = _add_silent_changes(facts, seen)
    if blocks.regions:  # shared code is generated once and called several times
        seen = replace(seen, code=GeneratedCode(fallback_kernels=seen.code.fallback_kernels))
    seen = replace(seen, warnings=(*made.warnings, *seen.warnings))
    return Contender(built, first_call_s, facts, seen, first_pass)


def meet_libraries(subject: Subject, variant: Variant, device: Hardware, phase: Phase) -> None:
    """Makes one untimed call of `variant`, neither compiled nor captured, on a copy of `subject`.

    The first use of a library's kernels in a process takes tens of milliseconds, which would be
    part of the first call of whichever variant uses them first.
    """
    own = modes.prepare(subject, variant, phase)
    plain = replace(variant, mode=variant.mode.eager_mode())
    with keep_state(own.module):
        built = modes.build(own, plain, False, device, phase, phase.start(own.module))
        timers.latency(built.step, device, 1)


def _usable(seen: CallEvidence, variant: Variant) -> GraphBreaks | None:
    """Returns the breaks; None (unknown, not 0) if nothing was compiled that could have a break."""
    if seen.breaks is None or not variant.mode.compiles:
        return None
    return seen.breaks if seen.compiled.graphs or seen.breaks.sites else None


def _add_silent_changes(facts: Facts, seen: CallEvidence) -> Facts:
    """Adds what made the compiler do something else than asked, without an error, to `facts`.

    If calls have different sizes, its limit of compilations is another column's matter.
    """
    from modescope.bench.evidence import compiler_switches  # which imports the compiler

    sites = seen.breaks.sites if seen.breaks and facts.fullgraph else ()
    in_eager = (
        seen.failure,
        AT_LIMIT if seen.limit_hits and not facts.varies else None,
        AT_BREAK.format(mode_effect.breaks_summary(sites)) if sites else None,
    )
    return replace(
        facts,
        switches=compiler_switches.active(),
        other_backend=compiler_switches.backend_is_replaced(),
        left_to_eager=next(filter(None, in_eager), None),
    )
