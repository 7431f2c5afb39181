"""What a process that is timed from its start is asked for, and what it says. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from modescope.bench.records.cases import Case
from modescope.bench.records.columns.column import nullable
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan

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
class Asked:
    """What a process is to do: start with what is saved, or fill it (`fills`).

    `calls` further calls follow the first. `output` is a file for the first result (`comparable`).
    """

    case: Case
    plan: Plan
    fills: bool = False
    calls: int = 0
    output: Path | None = None


@dataclass(frozen=True)
class Start:
    """What a process says of itself. Times are in seconds.

    `whole_s` lasts from the start of the process to its first result, and `phases_s` add up to it;
    neither has `own_s`, the time of what only modescope needs. `error`: relative error of the first
    result against plain eager of the same module; None if it was not compared. `failure`: why it
    ended without a result, in one line.
    """

    whole_s: float = 0.0
    own_s: float = 0.0
    phases_s: dict[str, float] = field(default_factory=dict)
    calls_s: float = 0.0  # of all further calls
    error: float | None = None
    graphs: int = 0  # that Dynamo made
    hits: int = 0  # graphs or functions whose code was there
    misses: int = 0  # graphs whose code was generated
    failure: str | None = None
    status: str = Status.FAILED  # the case's, if there is a failure


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
    start_graphs: int | None = nullable("graphs that Dynamo made in the last of these processes")
    start_hits: int | None = nullable("graphs or functions whose code was there")
    start_misses: int | None = nullable("graphs whose code was generated")
