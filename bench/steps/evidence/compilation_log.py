"""Reads torch's records of its compilations: the time of each phase, and its reasons in words."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch._dynamo.utils import CompilationMetrics, counters, get_compilation_metrics

from modescope.bench.records.columns import Compilations
from modescope.bench.records.errors import shorten

LONGEST_REASON = 200

_SOURCE = re.compile(r"\s+#\s.*", re.DOTALL)
_PLACE = re.compile(r"\s#\s+(?:\S*/)?([^/\s]+:\d+) in \w")
"""The patterns find what torch adds to a guard: ` # the line of code # folder/net.py:24 in
forward`, and advice."""

TOTALS = (
    ("dynamo", "dynamo_cumulative_compile_time_us"),
    ("aot", "aot_autograd_cumulative_compile_time_us"),
    ("inductor", "inductor_cumulative_compile_time_us"),
)
"""Phases, and the fields of CompilationMetrics that hold their times. Each time contains those of
the phases that follow."""

WITHIN_INDUCTOR = (
    ("kernels", "triton_compile_time_us"),  # on a CPU those of the C++ compiler
    ("autotune", "compile_time_autotune_time_us"),
)


class CompilationWatch:
    """Facts of the compilations within the block of `watch`."""

    def __init__(self) -> None:
        self.columns = Compilations()  # set once it is closed


@contextmanager
def watch() -> Iterator[CompilationWatch]:
    """Sets `columns` at the end of the block, from torch's records of the last 64 compilations."""
    watched, new, (hits, misses) = CompilationWatch(), record(), _cache()
    yield watched
    hits_after, misses_after = _cache()
    if compilations := new():
        watched.columns = _columns(compilations, hits_after - hits, misses_after - misses)


def record() -> Callable[[], list[CompilationMetrics]]:
    """A function that returns torch's records of all compilations since this call."""
    start_us = time.time_ns() // 1000

    def since() -> list[CompilationMetrics]:
        return [each for each in get_compilation_metrics() if (each.start_time_us or 0) >= start_us]

    return since


def recompile_reasons(compilations: Iterable[CompilationMetrics]) -> list[str]:
    """Why code was compiled again: the guards that failed and their places, each once."""
    reasons = (each.recompile_reason for each in compilations)
    return list(dict.fromkeys(_text(_guard(each)) for each in reasons if each))


def _columns(compilations: list[CompilationMetrics], hits: int, misses: int) -> Compilations:
    """The columns of these compilations; hits and misses are of the compiler's cache on disk."""
    skips = [each.cudagraph_skip_reason for each in compilations]
    skip_reasons = list(dict.fromkeys(_text(each) for each in skips if each))
    return Compilations(
        compiler_cache_hits=hits,
        compiler_cache_misses=misses,
        compile_phases_s=json.dumps(_phases_s(compilations)),
        recompile_reasons=json.dumps(recompile_reasons(compilations)),
        cudagraph_skip_reasons=json.dumps(skip_reasons),
    )


def _phases_s(compilations: Iterable[CompilationMetrics]) -> dict[str, float]:
    """The seconds of each phase in all compilations, without those of the phases inside it.

    The compilation of a backward has no time of Dynamo.
    """
    phases_us = dict.fromkeys((name for name, _ in (*TOTALS, *WITHIN_INDUCTOR)), 0.0)
    for each in compilations:
        inner_us = 0.0
        for name, column in reversed(TOTALS):
            total_us = _time_us(each, column)
            phases_us[name] += max(0.0, total_us - inner_us)
            inner_us = max(inner_us, total_us)
        for name, column in WITHIN_INDUCTOR:
            part_us = min(_time_us(each, column), phases_us["inductor"])
            phases_us[name] += part_us
            phases_us["inductor"] -= part_us
    return {name: time_us / 1e6 for name, time_us in phases_us.items()}


def _time_us(compilation: CompilationMetrics, column: str) -> float:
    return float(getattr(compilation, column, None) or 0.0)


def _cache() -> tuple[int, int]:
    counts = counters["inductor"]
    return counts["fxgraph_cache_hit"], counts["fxgraph_cache_miss"]


def _text(reason: str) -> str:
    """`reason`, shortened, without the id of the compilation that torch puts before some."""
    number, colon, rest = reason.partition(": ")
    is_id = colon and all(part.isdigit() for part in number.split("/"))
    return shorten(rest if is_id else reason, LONGEST_REASON)


def _guard(reason: str) -> str:
    """The guard that failed and its place, such as `not self.log (net.py:24)`.

    Leaves out the line of code, the stack and the advice of torch.
    """
    place = _PLACE.search(reason)
    failed = _SOURCE.sub("", reason).partition(" (HINT")[0]
    return f"{failed} ({place[1]})" if place else failed
