"""Reads what the compiler did: the code that Inductor generated, and torch's own records."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from torch._dynamo.utils import CompilationMetrics, counters, get_compilation_metrics

from modescope.bench.modes import compiled_optimizer
from modescope.bench.records.columns.compiling import Compilations, GeneratedCode
from modescope.bench.records.errors import shorten

KERNEL_CALL = re.compile(r"^\s+(?:(?:graph_\d+_)?cpp_\w+|triton_\w+\.run)\(", re.MULTILINE)
EXTERN_CALL = re.compile(r"^\s+(?:\w+ = )?(?:extern_kernels|torch\.ops)\.[\w.]+\(", re.MULTILINE)
"""KERNEL_CALL and EXTERN_CALL match calls in the Python wrapper that Inductor writes
(torch/_inductor/codegen/wrapper.py)."""

FALLBACK = re.compile(r"^\s+(?:\w+ = )?torch\.ops\.([\w.]+)\(", re.MULTILINE)
"""Matches a call of an operator of torch's dispatcher in that wrapper. The other extern calls are
calls of libraries."""

OWN_KERNEL = re.compile(
    r"^\s*((\w+)_\d+) = async_compile\.triton\('\w+', '{3}(?:(?!^'{3}).)*?user_autotune\(",
    re.MULTILINE | re.DOTALL,
)
"""Matches the definition of a kernel that the model itself launches: its name there, and as the
model calls it."""

SYMBOLIC_SIZE = re.compile(r"^\s+s\d+ = \w+$", re.MULTILINE)
"""Matches a line of that wrapper that takes a size from an argument. All other sizes are constants
in the wrapper."""

METRICS_LOG = "torch._inductor.compile_fx.__inductor_metrics"
"""The name of a log of Inductor, which counts bytes only while this log is on
(torch/_inductor/compile_fx.py)."""


LONGEST_REASON = 200

_SOURCE = re.compile(r"\s+#\s.*", re.DOTALL)
_PLACE = re.compile(r"\s#\s+(?:\S*/)?([^/\s]+:\d+) in \w")
"""_SOURCE and _PLACE match what torch adds to a guard: ` # the line of code # folder/net.py:24 in
forward`, and advice."""

TOTALS = (
    ("dynamo", "dynamo_cumulative_compile_time_us"),
    ("aot", "aot_autograd_cumulative_compile_time_us"),
    ("inductor", "inductor_cumulative_compile_time_us"),
)
"""Pairs of a phase and the field of CompilationMetrics that holds its time. Each time contains the
times of the phases that follow."""

WITHIN_INDUCTOR = (
    ("kernels", "triton_compile_time_us"),  # on a CPU those of the C++ compiler
    ("autotune", "compile_time_autotune_time_us"),
)


@dataclass
class CodeWatch:
    """The code that Inductor generated within the block of `watch_code`, and counts from it.

    `code` has a text for each compiled piece. `columns` and `symbolic_sizes` are set when the block
    ends. `columns` counts the kernels that one call of each piece runs, and the bytes they access.
    """

    code: list[str] = field(default_factory=list)
    columns: GeneratedCode = field(default_factory=GeneratedCode)  # for a call of each piece
    symbolic_sizes: int | None = None  # sizes that are arguments of the code; None without code


@contextmanager
def watch_code() -> Iterator[CodeWatch]:
    """Collects the code that Inductor generates within the block; sets the counts at its end.

    Counts calls in the code because Inductor's counters `generated_kernel_count` and `extern_calls`
    on a CPU also count what was considered and not used. Bytes of cached code come from the cache,
    if they were counted when the code was stored.
    """
    from torch._inductor import metrics  # here, because `record` is also used without Inductor
    from torch._inductor.graph import GraphLowering

    watched = CodeWatch()
    bytes_before = metrics.num_bytes_accessed
    saving = mock.patch.object(GraphLowering, "save_output_code", watched.code.append)
    with saving, _log_bytes():
        yield watched
    if not watched.code:
        return
    text = "\n".join(watched.code)
    own = _own_kernels(watched.code)
    watched.symbolic_sizes = len(SYMBOLIC_SIZE.findall(text))
    watched.columns = GeneratedCode(
        generated_kernels=len(KERNEL_CALL.findall(text))
        - sum(KERNEL_CALL.match(call) is not None for call, _ in own),
        extern_calls=len(EXTERN_CALL.findall(text)),
        fallback_kernels=json.dumps(list(dict.fromkeys(FALLBACK.findall(text)))),
        own_kernels=len(own),
        own_kernel_names=json.dumps(list(dict.fromkeys(name for _, name in own))),
        bytes_accessed=metrics.num_bytes_accessed - bytes_before or None,
    )


def _own_kernels(pieces: Iterable[str]) -> list[tuple[str, str]]:
    """Returns each call of a kernel that the model launches itself, with the kernel's name."""
    return [
        (call, name)
        for piece in pieces
        for called, name in OWN_KERNEL.findall(piece)
        for call in re.findall(rf"^\s+{called}\.run\(", piece, re.MULTILINE)
    ]


@contextmanager
def _log_bytes() -> Iterator[None]:
    """Turns METRICS_LOG on within the block, so that bytes are counted; shows none of its lines.

    While it is on, torch also estimates each node's run time and for that reads a GPU's clock with
    nvidia-smi, within the timed first call. The estimate is replaced: torch uses it elsewhere only
    to reorder communication. Records of nodes are cleared because they keep whole graphs alive.
    """
    from torch._inductor import metrics
    from torch._inductor.scheduler import BaseSchedulerNode

    log = logging.getLogger(METRICS_LOG)
    level, propagate = log.level, log.propagate
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        with mock.patch.object(BaseSchedulerNode, "get_estimated_runtime", _no_estimate):
            yield
    finally:
        log.setLevel(level)
        log.propagate = propagate
        metrics.node_runtimes.clear()
        metrics.nodes_num_elem.clear()


def _no_estimate(node: object) -> float:
    return 0.0


@dataclass
class CompilationWatch:
    """What is known of the compilations within the block of `watch_compilations`, set at its end.

    `of_optimizer`: how many graphs of an optimizer's step were compiled.
    """

    columns: Compilations = field(default_factory=Compilations)
    of_optimizer: int = 0


@contextmanager
def watch_compilations() -> Iterator[CompilationWatch]:
    """Sets its result at the end of the block to what torch recorded of compilations within it.

    Of more than 64 compilations torch has only the last 64 on record.
    """
    watched, new, (hits, misses) = CompilationWatch(), record(), _cache()
    yield watched
    hits_after, misses_after = _cache()
    if compilations := new():
        watched.of_optimizer = compiled_optimizer.graphs(compilations)
        watched.columns = _columns(compilations, hits_after - hits, misses_after - misses)


def record() -> Callable[[], list[CompilationMetrics]]:
    """Returns a function that returns torch's records of the compilations since this call.

    torch keeps only its last 64 records.
    """
    start_us = time.time_ns() // 1000

    def since() -> list[CompilationMetrics]:
        return [
            metrics
            for metrics in get_compilation_metrics()
            if (metrics.start_time_us or 0) >= start_us
        ]

    return since


def recompile_reasons(compilations: Iterable[CompilationMetrics]) -> list[str]:
    """Returns why code was compiled again: each guard that failed, with its place, once."""
    reasons = (compilation.recompile_reason for compilation in compilations)
    return list(dict.fromkeys(_text(_guard(reason)) for reason in reasons if reason))


def _columns(compilations: list[CompilationMetrics], hits: int, misses: int) -> Compilations:
    skips = [compilation.cudagraph_skip_reason for compilation in compilations]
    skip_reasons = list(dict.fromkeys(_text(skip) for skip in skips if skip))
    return Compilations(
        compiler_cache_hits=hits,
        compiler_cache_misses=misses,
        compile_phases_s=json.dumps(_phases_s(compilations)),
        recompile_reasons=json.dumps(recompile_reasons(compilations)),
        cudagraph_skip_reasons=json.dumps(skip_reasons),
    )


def _phases_s(compilations: Iterable[CompilationMetrics]) -> dict[str, float]:
    """Returns the seconds that all `compilations` together spent in each phase.

    The keys are the phases in TOTALS and WITHIN_INDUCTOR. Time in a phase inside another counts
    only for the inner one. Dynamo has no time in the compilation of a backward pass.
    """
    phases_us = dict.fromkeys((name for name, _ in (*TOTALS, *WITHIN_INDUCTOR)), 0.0)
    for compilation in compilations:
        inner_us = 0.0
        for name, column in reversed(TOTALS):
            total_us = _time_us(compilation, column)
            phases_us[name] += max(0.0, total_us - inner_us)
            inner_us = max(inner_us, total_us)
        for name, column in WITHIN_INDUCTOR:
            part_us = min(_time_us(compilation, column), phases_us["inductor"])
            phases_us[name] += part_us
            phases_us["inductor"] -= part_us
    return {name: time_us / 1e6 for name, time_us in phases_us.items()}


def _time_us(compilation: CompilationMetrics, column: str) -> float:
    return float(getattr(compilation, column, None) or 0.0)


def _cache() -> tuple[int, int]:
    counts = counters["inductor"]
    return counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"]


def _text(reason: str) -> str:
    """Returns `reason` without the id of the compilation that torch may put before it (`0/1: `).

    Cut to at most LONGEST_REASON characters.
    """
    number, colon, rest = reason.partition(": ")
    is_id = colon and all(part.isdigit() for part in number.split("/"))
    return shorten(rest if is_id else reason, LONGEST_REASON)


def _guard(reason: str) -> str:
    """Returns the guard that failed and its place, such as `not self.log (net.py:24)`.

    Leaves out the line of code, the stack and torch's advice.
    """
    place = _PLACE.search(reason)
    failed = _SOURCE.sub("", reason).partition(" (HINT")[0]
    return f"{failed} ({place[1]})" if place else failed
