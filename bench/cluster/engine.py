"""What a driver needs to know of whatever starts its workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import State

Jobs = Mapping[str, Any]
"""Names of jobs, and what their engine needs to find them again, JSON."""


class Engine(Protocol):
    """Starts workers, and says what became of them. All of it can be used by several drivers.

    A worker learns its scheduler and job from `members.VARIABLE` or from variables of Slurm, so
    that `Member.scheduler` is the engine's `name`, and `Member.job` one of the names in `Jobs`.
    """

    name: str

    detaches: bool
    """Whether the workers outlive the command that started them."""

    pause_s: float
    """Least time between two questions for states."""

    def logs(self, folder: Folder) -> Path:
        """Where the workers' output goes."""

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        """Starts up to `count` workers; returns `Jobs`. UsageError where that is refused."""

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        """The state of each job; None where it cannot be learned now. No reason: unknown."""

    def end(self, jobs: Jobs) -> None:
        """Ends what must not outlive the driver: its own processes, or jobs still in the queue."""

    def how_to_end(self, jobs: Jobs) -> str:
        """The command that ends the jobs of a detached sweep."""
