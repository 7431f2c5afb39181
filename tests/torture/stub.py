"""The cases of a round: each sleeps, and notes in the journal what became of it."""

from __future__ import annotations

import secrets
import time
from contextlib import suppress
from typing import Any

from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Sweep
from modescope.bench.cluster.locks import Locks
from modescope.bench.cluster.members import Member
from modescope.bench.records.files import atomic_write
from tests.helpers import stub_work
from tests.torture import process, scene

END = "complete"


class Stub(stub_work.Stub):
    """See `bench.cluster.work.Work`."""

    overwrites = False

    def __init__(self, sweep: Sweep) -> None:
        super().__init__(sweep)
        self._place = scene.place()
        process.set_up(self._place)

    def prepare(self, member: Member) -> None:
        self._worker = member.name
        scene.note(self._place, "worker", name=member.name)
        process.clear(self._study)
        earlier = [path.read_text().split() for path in stub_work.rows(self._study)]
        self.reusable = {task: run_id for task, run_id, status, *_ in earlier if status == "ok"}

    def locks(self, task: str) -> Locks:
        gpu = self._requests[task]["gpu"]
        return ((lock(self._place.name, gpu), False),) if gpu else ()

    def measure(self, task: str, run_id: str, position: int) -> str:
        request = self._requests[task]
        begin = time.monotonic()
        time.sleep(request["seconds"])
        end = time.monotonic()
        scene.note(self._place, "measured", gpu=request["gpu"], begin=begin, end=end)
        self._row(task, run_id, "ok", self._worker, secrets.token_hex(8))
        return "ok"

    def write_lost(self, claim: Claim, reason: str) -> None:
        with suppress(FileExistsError):
            self._row(claim.task, claim.run_id, "crashed", claim.worker, reason)

    def _row(self, task: str, run_id: str, status: str, worker: str, more: str) -> None:
        text = f"{task} {run_id} {status} {worker} {more} {END}"
        path = self._study / "runs" / f"{run_id}.row"
        with atomic_write(path, overwrite=self.overwrites) as partial:
            partial.write_text(text)
        scene.note(self._place, "row", run_id=run_id, text=text)

    def row(self, task: str, run_id: str, position: int) -> Any:
        return {"task": task}


def lock(place: str, gpu: str) -> str:
    """The name of a GPU's lock in a round."""
    return f"{place}-{gpu}"
