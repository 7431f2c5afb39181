"""Prepares a mode on its own copy of the model, and measures its first call."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch

from modescope.bench.case import mixed_calls
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.caches import CACHES
from modescope.bench.records.cases import Case, Plan, Variant
from modescope.bench.records.columns import Compilations, FirstPass, GeneratedCode, Setup
from modescope.bench.records.errors import shorten
from modescope.bench.steps import backends, compiler, modes
from modescope.bench.steps.backends import Compiled
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.evidence.mode_effect import Facts, GraphBreaks
from modescope.bench.steps.modes import Phase
from modescope.bench.steps.module_state import keep_state
from modescope.bench.steps.phases import phase_of
from modescope.bench.steps.subject import Built, Subject
from modescope.bench.timing import timers

if TYPE_CHECKING:
    from modescope.bench.steps.evidence.compilation import CodeWatch, CompilationWatch
    from modescope.bench.steps.evidence.graph_break_watch import GraphBreakWatch

WARNING_MAX_LENGTH = 200
MOST_WARNINGS = 5

OWN_CODE = "the model's forward, which is not compiled any more"

AT_BREAK = "the code at a graph break ({})"

AT_LIMIT = "code that was compiled as often as torch's recompile_limit allows"

FROM_CPP = "(Triggered internally at"
"""A part of each warning of torch's C++ code. The file that Python reports for such a warning is
that of the Python code that called torch."""

_TORCH = Path(torch.__file__).parent


@dataclass(frozen=True)
class Contender:
    """A mode that takes part in a timing: the case's or its baseline's, after its first call.

    It has its own copy of the model. `facts` decide whether the mode took effect.
    """

    built: Built
    first_call_s: float
    facts: Facts
    warnings: tuple[str, ...]  # torch's, in the first call
    columns: tuple[object, ...]  # further groups of columns about the first call

    def replays_graphs(self, device: Hardware) -> bool:
        """Returns whether its calls should replay CUDA graphs, which only a profile can prove."""
        return device.type == "cuda" and backends.replays_graphs(self.facts.mode)

    def effect(self, device: Hardware) -> mode_effect.ModeEffect:
        """Returns whether the mode took effect. It may profile, so call it after all timing."""
        facts = self.facts
        launches = mode_effect.graph_launches(self.built.step, facts.mode, device)
        if facts.switches and facts.compiled.graphs and not facts.left_to_eager:
            with self.built.keep_state():
                own = OWN_CODE if mode_effect.runs_own_code(self.built) else None
            facts = replace(facts, left_to_eager=own)
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
        meet_libraries(subject, variant, device, phase)
    own = modes.prepare(subject, variant, phase)
    first = phase.start(own.module)
    _ = own.given  # copied here: such copies are no part of the time or memory of the first call
    records_later = backends.captures(variant.mode) and device.type == "cuda"
    before = mode_effect.read_compiled()
    # These watches hardly affect the time: they keep code as it is written, add up bytes per kernel
    # and read a peak at the end.
    code, breaks, compiling = _compiler_watches(variant, plan)
    memory = device.allocator.watch_setup() if plan.memory else nullcontext()
    with (
        keep_state(own.module),
        watch_warnings() as warned,
        compiling as compilation_watch,
        code as code_watch,
        memory as peak_watch,
        breaks as breaks_watch,
    ):
        device.synchronize()
        start = device.clock()
        built = modes.build(own, variant, fullgraph, device, phase, first)
        device.synchronize()
        built_s = device.clock() - start
        calls, first_pass = 2 if records_later else 1, FirstPass()
        if built.parts:
            first_pass, calls_s = mixed_calls.first_pass(built, device, calls, breaks_watch)
        else:
            calls_s = sum(timers.latency(built.step, device, calls).samples_s)
        first_call_s = built_s + calls_s
    if built.parts and variant.mode.compiles:
        first_pass = mixed_calls.add_eager_calls(first_pass, built)
    compiled = mode_effect.read_compiled().since(before)
    built.adjust_start()
    facts = Facts(
        variant,
        fullgraph=fullgraph,
        varies=bool(subject.order),
        device_type=device.type,
        compiled=compiled,
        cold=CACHES[plan.compile_cache].starts_empty,
        symbolic_sizes=code_watch.symbolic_sizes if code_watch else None,
        observed=mode_effect.observe(built, variant, device),
        built_dtypes=mode_effect.weight_dtypes(subject.module),
        has_fp32=any(each.dtype is torch.float32 for each in subject.tensors()),
        breaks=_usable(breaks_watch.breaks if breaks_watch else None, compiled, variant),
    )
    if breaks_watch and variant.mode.compiles:
        facts = _add_silent_changes(facts, breaks_watch)
    groups = (
        code_watch.columns if code_watch else GeneratedCode(),
        compilation_watch.columns if compilation_watch else Compilations(),
        (peak_watch and peak_watch.result) or Setup(),
        first_pass,
    )
    return Contender(built, first_call_s, facts, tuple(warned), groups)


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


def _compiler_watches(
    variant: Variant, plan: Plan
) -> tuple[
    AbstractContextManager[CodeWatch | None],
    AbstractContextManager[GraphBreakWatch | None],
    AbstractContextManager[CompilationWatch | None],
]:
    if not (variant.mode.compiles or compiler.is_imported()):
        return nullcontext(), nullcontext(), nullcontext()
    from modescope.bench.steps.evidence import compilation, graph_break_watch

    code = compilation.watch_code() if plan.profile else nullcontext()
    return code, graph_break_watch.watch(), compilation.watch_compilations()


def _usable(breaks: GraphBreaks | None, compiled: Compiled, variant: Variant) -> GraphBreaks | None:
    """Returns `breaks`; None (unknown, not 0) if nothing was compiled that could have a break."""
    if breaks is None or not variant.mode.compiles:
        return None
    return breaks if compiled.graphs or breaks.sites else None


def _add_silent_changes(facts: Facts, watch: GraphBreakWatch) -> Facts:
    """Adds what made the compiler do something else than asked, without an error, to `facts`.

    If calls have different sizes, its limit of compilations is another column's matter.
    """
    from modescope.bench.steps.evidence import compiler_switches  # which imports the compiler

    sites = watch.breaks.sites if watch.breaks and facts.fullgraph else ()
    in_eager = (
        watch.failure,
        AT_LIMIT if watch.limit_hits and not facts.varies else None,
        AT_BREAK.format(mode_effect.breaks_summary(sites)) if sites else None,
    )
    return replace(
        facts,
        switches=compiler_switches.active(),
        other_backend=compiler_switches.backend_is_replaced(),
        left_to_eager=next(filter(None, in_eager), None),
    )


@contextmanager
def watch_warnings() -> Iterator[list[str]]:
    """Collects torch's warnings in the block, each text once and shortened, and still shows them.

    A warning counts even if it was shown before the block, except warnings that C++ code gives only
    once per process.
    """
    found: list[str] = []

    def note(text: str) -> None:
        short = shorten(text.partition(FROM_CPP)[0], WARNING_MAX_LENGTH)
        if short not in found and len(found) < MOST_WARNINGS:
            found.append(short)

    with warnings.catch_warnings(), _watch_log(note):  # the former forgets what has been shown
        show = warnings.showwarning

        def shown(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if FROM_CPP in str(message) or _TORCH in Path(filename).parents:
                note(str(message))
            show(message, category, filename, lineno, file, line)

        warnings.showwarning = shown
        yield found


@contextmanager
def _watch_log(note: Callable[[str], None]) -> Iterator[None]:
    """Calls `note` with each message that torch logs as a warning or worse.

    Torch's loggers do not propagate records to others, so records are read where they are made.
    """
    make = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.levelno >= logging.WARNING and record.name.partition(".")[0] == "torch":
            note(record.getMessage())
        return record

    logging.setLogRecordFactory(made)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make)
