"""Columns of new processes, timed from their start to the first right result."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns.column import nullable

PHASES = {
    "import": "the interpreter, and Python's modules: torch, its compiler, the model's",
    "load": "the model is made, what was saved is read",
    "dynamo": "Dynamo turns the model's Python into graphs, with guards",
    "inductor": "AOTAutograd and Inductor turn graphs into code",
    "probe": "Inductor compiles and loads programs that test the processor's instructions",
    "kernels": "C++ or Triton compiles that code",
    "run": "the first run of the model",
    "rest": "what none of these explains",
}
"""Phases from the start of a process to its first right result, and what happens in them."""


@dataclass(frozen=True)
class Starts:
    """Processes timed from their start to the first right result (starts=N); null without any.

    Each took turns with a process in the baseline's mode.
    """

    starts_s: tuple[float, ...] | None = nullable("each process, without what modescope needs")
    baseline_starts_s: tuple[float, ...] | None = nullable("the same for the baseline")
    start_phases_s: str | None = nullable(
        "JSON: for each process the time of its phases. "
        + "; ".join(map(": ".join, PHASES.items()))
    )
    fill_s: float | None = nullable(
        "the process that fills the compiler's cache or saves its code; null if none does"
    )
    cache_bytes: int | None = nullable("files that it leaves in the compiler's cache")
    shipped_bytes: int | None = nullable("what processes need of it that start elsewhere")
    start_graphs: int | None = nullable("graphs that Dynamo made: the most of these processes")
    start_hits: int | None = nullable("graphs or functions whose code was there: the fewest")
    start_misses: int | None = nullable("graphs whose code was generated: the most")
