"""Rules on torch.compile: compilations, graph breaks, fallbacks, padding, first calls, warnings.

With `calls=`, a case calls the model with inputs of different sizes, each of which may compile,
fall back to eager, or be padded.

A rule returns evidence if what its docstring says holds for the row of the context, else None.
"""

from __future__ import annotations

import json
import re

from modescope.analysis.causes import evidence, remedies
from modescope.analysis.causes.outcome import is_compared, is_compiled, long_first_call
from modescope.analysis.causes.types import Cause, Context, Evidence, Kind
from modescope.analysis.derive import profile
from modescope.analysis.derive.mix import mix_of
from modescope.analysis.derive.starts import phases_s
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.records.caches import CACHES

LEAST_PADDING = 1.05
LEAST_FALLBACKS = 0.1  # of a call: operators that Inductor leaves to eager are named above it
LEAST_BYTES = 32 * 2**20  # above plain eager's first call; loading the compiler takes 50 to 75 MiB
LEAST_TESTS = 0.2  # of a start
TIMES = 2.0  # the peak of a steady call
_MOST_NUMBERS = 6  # of calls that compile, named
_MOST_PHASES = 3
OWN_WARNINGS = re.compile(
    r"No valid triton configs|TypedStorage is deprecated|No CUDA runtime|_stable_hash_for_caching"
)
"""Warnings of torch about its own work: autotuning drops what the device cannot run."""


def eager_fallback(context: Context) -> Evidence | None:
    """Torch reached its limit of compilations, and runs some of the later calls in eager.

    `share` of the evidence: the part of the time of a pass over the inputs that such calls take.
    """
    mix = mix_of(context.row)
    if mix is None or mix.gave_up_at is None or not mix.eager or not is_compiled(context.row):
        return None
    reasons = [compilation.reason for compilation in mix.compiles if compilation.reason]
    texts = {
        "at": f"{mix.gave_up_at}", "eager": f"{len(mix.eager)}", "calls": f"{len(mix.calls)}",
        "times": numbers.counted(len(mix.compiles), "compilation", "compilations"),
        "why": f": {reasons[-1]}" if reasons else "",
        "remedy": remedies.for_changes(context, reasons[-1:]),
    }  # fmt: skip
    return Evidence(mix.eager_share, texts)


def size_compiles(context: Context) -> Evidence | None:
    """In the first pass over inputs of different sizes, torch compiled in two calls or more."""
    mix = mix_of(context.row)
    if mix is None or len(mix.compiles) < 2:
        return None
    named = [f"{compilation.number}" for compilation in mix.compiles[:_MOST_NUMBERS]]
    more = len(mix.compiles) - len(named)
    reasons = [compilation.reason for compilation in mix.compiles if compilation.reason]
    texts = {
        "times": f"{len(mix.compiles)}", "calls": f"{len(mix.calls)}",
        "numbers": phrases.listed([*named, *([f"{more} more"] if more else [])]),
        "seconds": numbers.duration(sum(compilation.seconds for compilation in mix.compiles)),
        "why": f": {reasons[-1]}" if reasons else "",
    }  # fmt: skip
    return Evidence(None, texts)


def padding(context: Context) -> Evidence | None:
    """Padding to fewer sizes makes the inputs 5 % larger or more."""
    mix = mix_of(context.row)
    if mix is None or mix.padding < LEAST_PADDING:
        return None
    return Evidence(1 - 1 / mix.padding, {"times": f"{mix.padding:.2f}"})


def recompiles(context: Context) -> Evidence | None:
    """Torch compiled again while calls were timed, or gave reasons for compiling again.

    `share` of the evidence: 1 if it compiled while calls were timed, else unknown.
    """
    row, reasons = context.row, evidence.texts(context.row, "recompile_reasons")
    timed = row["recompiles"] or 0
    if (row["calls"] or row["regions"]) and not timed:  # new sizes, and blocks that differ, compile
        return None
    if not is_compiled(row) or not (timed or reasons):
        return None
    texts = {
        "times": numbers.counted(timed or len(reasons), "time", "times"),
        "when": " while calls were timed" if timed else "",
        "why": f": {evidence.first_and_count(reasons)}" if reasons else "",
        "remedy": remedies.for_changes(context, reasons),
    }
    return Evidence(1.0 if timed else None, texts)


def graph_breaks(context: Context) -> Evidence | None:
    """torch.compile split the model into several graphs, at graph breaks."""
    row = context.row
    if not row["graph_breaks"]:
        return None
    sites = json.loads(row["graph_break_reasons"] or "[]")
    in_eager = evidence.texts(row, "eager_functions")
    at = [f"{site['reason']}{' at ' + site['place'] if site['place'] else ''}" for site in sites]
    texts = {
        "breaks": numbers.counted(row["graph_breaks"], "graph break", "graph breaks"),
        "where": f": {evidence.first_and_count(at)}" if at else "",
        "eager": f"; in eager: {', '.join(in_eager)}" if in_eager else "",
    }
    return Evidence(_share_of_breaks(context, bool(in_eager)), texts)


def fallbacks(context: Context) -> Evidence | None:
    """Operators for which Inductor generates no code take a tenth of the call or more.

    Kernels that mode.kernels asks for are no such operators (`own_kernels.called_kernels`).
    """
    row = context.row
    names = {_operator(name) for name in evidence.texts(row, "fallback_kernels")}
    left = (kernel for kernel in evidence.kernels(row) if kernel.name in names)
    mine = [kernel for kernel in left if not evidence.is_own(row, kernel.name)]
    share = evidence.share_of_call(row, evidence.seconds(mine))
    if not mine or share is None or share < LEAST_FALLBACKS:
        return None
    texts = {"share": numbers.share(share, 1), "names": evidence.heaviest_names(mine, row)}
    return Evidence(share, texts)


def _share_of_breaks(context: Context, in_eager: bool) -> float | None:
    """Returns the most that a model without graph breaks would save, as a share of a call, or None.

    That is the time of guards and of Python around the compiled pieces. `in_eager`: whether
    functions run in eager between them; on a CPU the time of their kernels is then added, except of
    matrix products, for which compiled code calls the same library.
    """
    row = context.row
    call = profile.compiled_call(row)
    around = None if call is None else call.overhead_share
    if not in_eager or predicates.on_cuda(row):
        return around
    left = [
        kernel for kernel in evidence.kernels(row) if not (kernel.is_generated or kernel.is_product)
    ]
    replaceable = evidence.share_of_call(row, evidence.seconds(left)) if left else None
    known = [share for share in (around, replaceable) if share is not None]
    return min(1.0, sum(known)) if known else None


def _operator(name: str) -> str:
    """Converts an operator's name to the name in profiles: `aten.sort.stable` to `aten::sort`."""
    parts = name.removeprefix("torch.ops.").split(".")
    return name if len(parts) < 2 else "::".join(parts[:2])


def first_call(context: Context) -> Evidence | None:
    """The first call takes as long as a thousand calls of the baseline, or longer."""
    row, calls = context.row, long_first_call(context.row)
    if calls is None:
        return None
    what, keep = phrases.first_step(row), "keep torch's compiler cache between processes"
    if not CACHES[row["compile_cache"]].compiles:  # which is kept
        keep = "let each process make many calls"
    if phrases.ahead_s(row) is not None:
        what, keep = f"build ahead of time with the {what}", "build the package once for them"
    texts = {
        "what": what, "first": numbers.duration(phrases.setup_s(row)), "keep": keep,
        "calls": numbers.calls(calls), "phases": _phases(row), "caches": _caches(context),
        "pays": _pays(row),
    }  # fmt: skip
    return Evidence(None, texts)


def _phases(row: Row) -> str:
    phases = sorted(
        json.loads(row["compile_phases_s"] or "{}").items(), key=lambda phase: -phase[1]
    )
    known = [f"{name} {s:#.3g} s" for name, s in phases[:_MOST_PHASES] if s > 0]
    return f": {', '.join(known)}" if known else ""


def _caches(context: Context) -> str:
    for other in context.caches:
        compiles = CACHES[other["compile_cache"]].compiles
        lacked = not compiles and other["compiler_cache_misses"]
        if other["first_call_s"] is not None and not lacked:
            first = numbers.duration(other["first_call_s"])
            return f"; with a {other['compile_cache']} compiler cache {first}"
    return ""


def _pays(row: Row) -> str:
    calls = row["break_even_calls"]
    if not calls:
        return ""
    if calls == float("inf"):
        return f"; at {'these sizes' if row['calls'] else 'this size'} it never pays"
    return f"; it pays after {numbers.calls(calls)} calls"


def memory_of_compiling(context: Context) -> Evidence | None:
    """The first call's peak memory exceeds plain eager's by 32 MiB, and is twice a usual call's."""
    row, plain = context.row, context.plain
    setup, steady = row["setup_peak_bytes"], row["peak_bytes"]
    before = None if plain is None else plain["setup_peak_bytes"]
    if not is_compiled(row) or not is_compared(row):
        return None
    if setup is None or steady is None or before is None:
        return None
    if setup - before < LEAST_BYTES or setup < TIMES * steady:
        return None
    texts = {
        "setup": numbers.size(setup), "before": numbers.size(before),
        "steady": numbers.size(steady),
    }  # fmt: skip
    return Evidence(None, texts)


TESTS_KNOWN = "TORCHINDUCTOR_VEC_ISA_OK"
"""Inductor's variable, which it takes for the result of the tests of vector instructions. Further
tests, of bf16 and VNNI, run all the same."""


def instruction_tests(context: Context) -> Evidence | None:
    """Inductor's tests of the processor's instructions take over 20 % of a new process's start."""
    tests_s, start = phases_s(context.row).get("probe", 0.0), context.row["start_s"]
    if start is None or not tests_s > LEAST_TESTS * start.value:
        return None
    state, remedies = CACHES[context.row["compile_cache"]], list[str]()
    if state.ships or not state.fills:
        remedies = [
            "A compiler cache that is kept or shipped as a folder has these programs; a bundle and "
            "a saved function have not."
        ]
    if TESTS_KNOWN not in json.loads(context.row["variables"] or "{}"):
        remedies += [f"{TESTS_KNOWN}=1 leaves out the tests of vector instructions alone."]
    texts = {
        "tests": numbers.duration(tests_s), "start": numbers.duration(start.value),
        "remedy": " ".join(remedies) or "Nothing leaves out the rest of them.",
    }  # fmt: skip
    return Evidence(None, texts)


def torch_warning(context: Context) -> Evidence | None:
    """Torch printed a warning during the run that concerns the program, not torch's own work."""
    every = evidence.texts(context.row, "torch_warnings")
    warnings = [warning for warning in every if not OWN_WARNINGS.search(warning)]
    return Evidence(None, {"warning": evidence.first_and_count(warnings)}) if warnings else None


CAUSES = (
    Cause(
        Kind.PART, eager_fallback,
        "torch gives up at call {at}, after {times}{why}; {eager} of {calls} calls of a pass run "
        "in eager since then.",
        "{remedy}",
    ),
    Cause(
        Kind.LOSS, padding,
        "padding makes its calls {times}× as large as those of the baseline.",
        "More buckets pad less; each is compiled once.",
    ),
    Cause(
        Kind.COST, size_compiles,
        "torch compiles in {times} of the first {calls} calls ({numbers}), which take {seconds}"
        "{why}.",
        "Warm up with every size, or compile once for all (mode=compile-dynamic).",
    ),
    Cause(
        Kind.PART, recompiles,
        "torch compiled again {times}{when}{why}.",
        "{remedy}",
    ),
    Cause(
        Kind.PART, graph_breaks,
        "the model is compiled in pieces, with {breaks}{where}{eager}.",
        "Remove what breaks the graph; model.fullgraph=true makes each break an error.",
    ),
    Cause(
        Kind.PART, fallbacks,
        "{share} of a call is operators that Inductor leaves to eager ({names}).",
        "Express them by operators that Inductor generates code for.",
    ),
    Cause(
        Kind.COST, first_call,
        "the {what} takes {first}, as long as {calls} calls of the baseline{phases}{caches}.",
        "Time the calls after it, and {keep}{pays}.",
    ),
    Cause(
        Kind.COST, memory_of_compiling,
        "the first call takes {setup} more memory, in eager {before}; a steady call needs "
        "{steady}.",
        "Leave room for the first call, or compile with fewer workers "
        "(TORCHINDUCTOR_COMPILE_THREADS=1).",
    ),
    Cause(
        Kind.COST, instruction_tests,
        "programs that test the processor's instructions take {tests} of the {start} from the "
        "start of a process to its first result.",
        "{remedy}",
    ),
    Cause(
        Kind.HINT, torch_warning,
        "torch warned: {warning}",
    ),
)  # fmt: skip
