"""What a worker and a driver need to know of the tasks of a sweep."""

from __future__ import annotations

import pkgutil
from typing import Any, Protocol

from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Sweep
from modescope.bench.cluster.locks import Locks
from modescope.bench.cluster.members import Member


class Work(Protocol):
    """The tasks of a sweep. A class of this kind is named in requests.json, and gets the sweep.

    `exists` and `write_lost` are called by drivers too, which never call `prepare`.
    """

    problems: dict[str, str]
    """Tasks that this machine cannot measure, and why; after `prepare`."""

    reusable: dict[str, str]
    """Tasks with an earlier row that can be reused, and its run id; after `prepare`."""

    again: dict[str, str]
    """Why the earlier row of a task is not reused; after `prepare`."""

    def prepare(self, member: Member) -> None:
        """Finds out what this machine can measure; before any of the following."""

    def calibrate(self) -> bool:
        """Measures what nodes are compared by; the locks of the sweep's first task are held.

        Whether that could be measured.
        """

    def locks(self, task: str) -> Locks:
        """What has to be held while the task is measured."""

    def new_run_id(self) -> str:
        """A unique run id."""

    def row(self, task: str, run_id: str, position: int) -> Any:
        """JSON from which `write_lost` makes the row if the worker is lost."""

    def measure(self, task: str, run_id: str, position: int) -> str:
        """Measures a task, writes its row and returns its status, such as ok.

        Raises FileExistsError where there is a row already.
        `position`: how many tasks this worker has measured before.
        """

    def exists(self, run_id: str) -> bool:
        """Whether the row was written."""

    def write_lost(self, claim: Claim, reason: str) -> None:
        """Writes the row of a task whose worker was lost, unless there is one already."""


def work_of(sweep: Sweep) -> Work:
    """The tasks of a sweep."""
    work: Work = pkgutil.resolve_name(sweep.work)(sweep)
    return work
