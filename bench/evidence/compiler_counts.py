"""Counts what torch's compiler does in this process. Does not import the compiler."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields

from modescope.bench.model import compiler

AUTOTUNE_COUNTERS = (
    "select_algorithm_autotune",
    "coordesc_tuning_bench",
    "cpp_templated_kernel_counter",
)
"""Inductor's counters of benchmarked choices, and of templates that were chosen."""


@dataclass(frozen=True)
class Compiled:
    """Counts of what torch's compiler has done in this process.

    `graphs`: graphs compiled. `autotuned`: choices of kernels that Inductor benchmarked against
    each other, and kernel templates that it chose.
    """

    frames: int  # code frames examined; torch counts none under fullgraph
    graphs: int
    autotuned: int
    graph_skips: int  # graphs that the compiler runs without CUDA graphs
    loaded: int = 0  # functions that were compiled in another process (caching_precompile)

    @property
    def compilations(self) -> int:
        """How often the compiler was called: the larger of two counts that each miss some calls."""
        return max(self.frames, self.graphs)

    def since(self, earlier: Compiled) -> Compiled:
        """Returns these counts minus the counts `earlier`."""
        return Compiled(
            *(getattr(self, count.name) - getattr(earlier, count.name) for count in fields(self))
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
        loaded=counters["dynamo_cache"]["dynamo_cache_hit"],
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
