"""The table of executors, which measure the cases of a command. `cluster=NAME` chooses one."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import ROOT
from modescope.bench.resolve import Request
from modescope.bench.settings import usage_error


@dataclass(frozen=True)
class Submission:
    """The cases of one command, as they are being measured."""

    study_folder: Path
    runs: int  # how many run ids `finished` yields
    finished: Iterator[str]  # run ids, each once its row is on disk, in any order
    detaches: bool = False  # cases are measured on after an interruption
    confirm: Callable[[Sequence[str]], None] | None = None  # measures these runs' cases once more


class Incomplete(Exception):
    """Raised by `Submission.finished` where cases are left that cannot be measured now."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused  # nothing was measured, by a mistake of the user


@dataclass(frozen=True)
class Executor:
    """One way to measure cases, and how it is chosen.

    Its function takes the requests of one command, which can be pickled. It raises UsageError for
    requests that it cannot measure, prints what will be measured where, and returns a `Submission`;
    None with dry_run, when that was all. What depends on the measuring machine (device,
    environment, refusals, which rows may be reused) is decided on that machine, and
    `bench.sweep.record_attempt.measure` writes the row there.

    Iterating `Submission.finished` shows progress on stderr. A KeyboardInterrupt ends what was
    started and is raised again; written rows stay, so that the same command resumes.
    """

    function: str  # "module:name", imported only where something is measured
    package: str | None = None  # what it imports beside modescope's requirements
    extra: str | None = None  # of modescope, which installs that package


EXECUTORS = {
    "none": Executor("modescope.bench.sweep.local_executor:submit"),
    "gpus": Executor("modescope.bench.cluster.launch:local"),
    "slurm": Executor("modescope.bench.cluster.launch:slurm", package="submitit", extra="slurm"),
    "ray": Executor("modescope.bench.cluster.launch:ray", package="ray", extra="ray"),
}
"""Executors by the value of cluster.engine."""


def submit(requests: Sequence[Request]) -> Submission | None:
    """Gives the requests of one command to their executor."""
    name = requests[0].settings.cluster["engine"]
    if name not in EXECUTORS:
        raise usage_error(f"cluster.engine={name}", "no such engine", EXECUTORS)
    executor = EXECUTORS[name]
    if executor.package and importlib.util.find_spec(executor.package) is None:
        raise UsageError(
            f"cluster={name}: {executor.package} is not installed; {install(executor.extra)}"
        )
    function: Callable[[Sequence[Request]], Submission | None]
    function = pkgutil.resolve_name(executor.function)
    return function(requests)


def install(extra: str | None) -> str:
    """The command that installs an extra of modescope."""
    is_checkout = (ROOT / "pyproject.toml").is_file()
    return f"pip install -e '.[{extra}]'" if is_checkout else f"pip install 'modescope[{extra}]'"
