"""The folder through which the workers of a sweep and its driver talk: `<study>/jobs/<sweep>-<n>`.

    requests.json          what is measured (`Sweep`)
    claims/<task>.<n>.json a worker measures the task, as its n-th attempt (`bench.cluster.claims`)
    done/<task>.json       the run id of the task's row
    problems/<task>.<worker>.json  why the worker's machine cannot measure the task
    workers/<name>.json    a worker (`bench.cluster.members`); <name>.beat is written while it lives
    submissions/<n>.json   what a driver has handed to its engine
    logs/                  output of workers
    closed.json            another generation continues the sweep (`bench.cluster.generations`)

Files appear complete and are never changed, except those under workers/, which have one writer.
Only file operations that are atomic on network drives are used: link, rename and mkdir.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from modescope.bench.records import leftovers
from modescope.bench.records.files import atomic_write
from modescope.bench.records.ids import short_hash

PARTS = ("claims", "done", "problems", "workers", "submissions", "logs")


@dataclass(frozen=True)
class Sweep:
    """What the workers of a folder measure."""

    work: str  # "module:Class": what a task is (`bench.cluster.work.Work`)
    requests: tuple[Any, ...]  # JSON
    tasks: tuple[tuple[int, int], ...]  # request and replicate
    study_folder: str
    working_folder: str  # where relative paths begin
    timeout_s: float  # longest time of one task
    order: str = "random"  # of a worker's tasks: random | given
    seed: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the tasks, in the order in which they were given."""
        return [f"{request}-{replicate}" for request, replicate in self.tasks]


@dataclass(frozen=True)
class Done:
    """How a task ended."""

    run_id: str
    reused: bool = False  # a row that was there before the sweep
    again: str | None = None  # why the earlier row of the case was not reused


@dataclass(frozen=True)
class Folder:
    """One generation of a sweep."""

    path: Path

    def sweep(self) -> Sweep:
        """The content of requests.json; raises OSError where there is none."""
        content = json.loads((self.path / "requests.json").read_text())
        tasks = tuple((request, replicate) for request, replicate in content["tasks"])
        return Sweep(**{**content, "requests": tuple(content["requests"]), "tasks": tasks})

    def part(self, name: str) -> Path:
        """One of its folders."""
        return self.path / name

    def names(self, part: str) -> set[str]:
        """Names of the complete JSON files in a part, without suffix."""
        return {
            name.removesuffix(".json")
            for name in os.listdir(self.part(part))
            if name.endswith(".json") and not name.startswith(".")
        }

    def create(self, part: str, name: str, content: Any) -> bool:
        """Writes a file unless it exists; whether this call made it."""
        if not self.path.is_dir():
            raise FileNotFoundError(2, "the folder of the sweep was removed", str(self.path))
        try:
            with atomic_write(self.part(part) / f"{name}.json", overwrite=False) as partial:
                partial.write_text(json.dumps(content))
        except FileExistsError:
            return False
        return True

    def read(self, part: str, name: str) -> Any:
        """The content of a file; raises OSError where there is none."""
        return json.loads((self.part(part) / f"{name}.json").read_text())

    def problems(self) -> dict[str, dict[str, str]]:
        """Why workers cannot measure a task, by task and worker."""
        found: dict[str, dict[str, str]] = {}
        for name in self.names("problems"):
            task, _, worker = name.partition(".")
            found.setdefault(task, {})[worker] = self.read("problems", name)["text"]
        return found

    def forget_problems(self, worker: str) -> None:
        """Removes what a worker has said of the machine on which it was before."""
        for name in self.names("problems"):
            if name.partition(".")[2] == worker:
                (self.part("problems") / f"{name}.json").unlink(missing_ok=True)

    def close(self) -> None:
        """Says that another generation continues the sweep."""
        self.create("", "closed", {})

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return (self.path / "closed.json").exists()

    def clear(self) -> None:
        """Removes what killed processes have left half written."""
        leftovers.clear(self.path, *(self.part(name) for name in PARTS))

    def mark_done(self, task: str, done: Done) -> None:
        """Ends a task; of several calls for one task the first counts."""
        self.create("done", task, asdict(done))

    def done(self, task: str) -> Done:
        """How a task ended that is among `names("done")`."""
        return Done(**self.read("done", task))

    def is_finished(self, sweep: Sweep) -> bool:
        """Whether all tasks are done."""
        return self.names("done").issuperset(sweep.names)


def sweep_id(sweep: Sweep, engine: str) -> str:
    """The same for the same requests to the same kind of engine."""
    return short_hash([sweep.work, sweep.requests, sweep.study_folder, engine])
