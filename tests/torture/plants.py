"""Faults that are planted in the core to see whether torture finds them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from modescope.bench.cluster import claims, lost, members, worker
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import Member, State
from modescope.bench.cluster.work import Work


@dataclass(frozen=True)
class Plant:
    """A fault, and the events that give it occasions."""

    plant: Callable[[], None]
    events: tuple[str, ...]


def _overwritten() -> None:
    """Whoever writes a row last wins."""
    from tests.torture.stub import Stub

    Stub.overwrites = True


def _new_run_id() -> None:
    """A restarted job measures its task under a new run id."""
    measure, go_on = worker.Worker._measure, worker.Worker._continue
    continuing = False

    def continued(self: worker.Worker) -> None:
        nonlocal continuing
        continuing = True
        go_on(self)
        continuing = False

    def measured(self: worker.Worker, task: str, run_id: str, again: str | None) -> None:
        measure(self, task, self._work.new_run_id() if continuing else run_id, again)

    worker.Worker._continue = continued  # type: ignore[method-assign]
    worker.Worker._measure = measured  # type: ignore[method-assign]


def _wall_clock() -> None:
    """Signs of life are compared with the driver's own clock."""

    def is_silent(folder: Folder, member: Member) -> bool:
        beat = folder.part("workers") / f"{member.name}.beat"
        return time.time() - beat.stat().st_mtime > members.SILENT_S

    members.is_silent = is_silent


def _freed() -> None:
    """The task of a lost worker is given to another one, though the lost one may live."""

    def released(folder: Folder, work: Work, claim: Claim, member: Member, state: State) -> bool:
        claims.release(folder, claim)
        return False

    lost.end_claim = released


PLANTS = {
    "overwritten": Plant(_overwritten, ("forget", "stop_worker")),
    "new_run_id": Plant(_new_run_id, ("requeue_stopped",)),
    "wall_clock": Plant(_wall_clock, ("worker_by_hand",)),
    "freed": Plant(_freed, ("forget", "stop_worker")),
}
