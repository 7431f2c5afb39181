"""Tasks without torch, for the workers of `bench.cluster`: each writes a row that is a text."""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Sweep
from modescope.bench.cluster.locks import Locks, visible_gpu
from modescope.bench.cluster.members import Member
from modescope.bench.records.files import atomic_write

NAME = "tests.helpers.stub_work:Stub"


class Stub:
    """See `bench.cluster.work.Work`. A request may have these keys:

    seconds: how long it takes; gpu: the key of its GPU; problem: why no machine can measure it;
    sick: the worker whose machine cannot; error: what ends a worker before its first task;
    kill: a signal for the worker that measures it, once; raises: the text of an error; status: of
    its row; sentinel: whether this machine can measure it.
    """

    def __init__(self, sweep: Sweep) -> None:
        self._study = Path(sweep.study_folder)
        self._requests: dict[str, dict[str, Any]] = {
            name: sweep.requests[number]
            for name, (number, _) in zip(sweep.names, sweep.tasks, strict=True)
        }
        self._worker = ""
        self.problems: dict[str, str] = {}
        self.reusable: dict[str, str] = {}
        self.again: dict[str, str] = {}

    def prepare(self, member: Member) -> None:
        self._worker = member.name
        for task, request in self._requests.items():
            if "error" in request:
                raise ModuleNotFoundError(request["error"])
            if "problem" in request or request.get("sick") == member.name:
                self.problems[task] = request.get("problem", "no such device")
        earlier = {path.read_text().split()[0]: path.stem for path in rows(self._study)}
        self.reusable = {task: earlier[task] for task in self._requests if task in earlier}

    def calibrate(self) -> bool:
        (self._study / "sentinels").mkdir(parents=True, exist_ok=True)
        (self._study / "sentinels" / self._worker).touch()
        return bool(next(iter(self._requests.values())).get("sentinel", True))

    def locks(self, task: str) -> Locks:
        gpu = self._requests[task].get("gpu")
        return ((f"test-{self._study.parent.name}-{gpu}", False),) if gpu else ()

    def new_run_id(self) -> str:
        return f"{time.time_ns()}-{secrets.token_hex(3)}"

    def row(self, task: str, run_id: str, position: int) -> Any:
        return task

    def measure(self, task: str, run_id: str, position: int) -> str:
        request = self._requests[task]
        begin = time.monotonic()
        time.sleep(request.get("seconds", 0))
        if "raises" in request:
            raise ValueError(request["raises"])
        if "kill" in request:
            marker = self._study / f"killed-{task}"
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.Signals[request["kill"]])
                time.sleep(30)
        times = f"{begin} {time.monotonic()}"
        status = str(request.get("status", "ok"))
        self._write(task, run_id, f"{task} {status} {self._worker} {times} {visible_gpu()}")
        return status

    def exists(self, run_id: str) -> bool:
        return (self._study / "rows" / f"{run_id}.row").exists()

    def write_lost(self, claim: Claim, reason: str) -> None:
        with suppress(FileExistsError):
            self._write(claim.row, claim.run_id, f"{claim.row} crashed {reason}")

    def _write(self, task: str, run_id: str, text: str) -> None:
        with atomic_write(self._study / "rows" / f"{run_id}.row", overwrite=False) as partial:
            partial.write_text(text)


def rows(study: Path) -> list[Path]:
    """The rows of a study, in no order."""
    return list((study / "rows").glob("*.row"))


def texts(study: Path) -> list[str]:
    """The contents of all rows, by task."""
    return sorted(path.read_text() for path in rows(study))


def sweep_of(study: Path, requests: list[dict[str, Any]], **changes: Any) -> Sweep:
    """A sweep of these requests."""
    return Sweep(
        NAME,
        tuple(requests),
        tuple((number, 0) for number in range(len(requests))),
        str(study),
        os.getcwd(),
        timeout_s=1.0,
        **changes,
    )
