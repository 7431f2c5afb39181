"""What a process that is timed from its start is asked for, and what it says. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from modescope.bench.records.cases import Case
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan


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
