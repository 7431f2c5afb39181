"""A scheduler whose jobs are processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from modescope.bench.cluster import members
from modescope.bench.cluster.engine import Jobs
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, State
from tests.helpers.paths import ROOT


class FakeScheduler:
    """See `bench.cluster.engine.Engine`."""

    name = "fake"
    detaches = True
    pause_s = 0.0

    def __init__(self, held: bool = False) -> None:
        self.held = held  # jobs stay in the queue
        self.waits_for: str | None = None  # why, if that is unusual
        self.reachable = True  # else it does not answer
        self.reason = "FAKE_NODE_FAIL"
        self.processes: dict[str, subprocess.Popen[bytes] | None] = {}
        self.submissions: list[int] = []
        self.ended: list[str] = []

    def logs(self, folder: Folder) -> Path:
        return folder.part("logs")

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        self.submissions.append(count)
        names = [f"{len(self.submissions)}_{number}" for number in range(count)]
        for name in names:
            self.processes[name] = None if self.held else self.start(folder, name)
        return dict.fromkeys(names)

    def start(self, folder: Folder, name: str, restart: int = 0) -> subprocess.Popen[bytes]:
        """Starts the job's process."""
        spec = {"scheduler": self.name, "job": name, "restart": restart}
        with (folder.part("logs") / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "modescope.bench.worker", str(folder.path)],
                env={**os.environ, members.VARIABLE: json.dumps(spec), "PYTHONPATH": str(ROOT)},
                cwd="/",
                stdout=log,
                stderr=log,
            )

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        return {name: self._state(name) for name in jobs} if self.reachable else None

    def _state(self, name: str) -> State:
        if name not in self.processes:
            return State(GONE, self.reason)
        process = self.processes[name]
        if process is None:
            return State(PENDING, self.waits_for)
        return State(RUNNING) if process.poll() is None else State(GONE, self.reason)

    def end(self, jobs: Jobs) -> None:
        self.ended += [name for name in jobs if self.processes.get(name) is None]

    def how_to_end(self, jobs: Jobs) -> str:
        return f"fakecancel {' '.join(sorted(jobs))}"

    def kill_all(self) -> None:
        """Ends all processes, and waits for them."""
        for process in self.processes.values():
            if process is not None:
                process.kill()
                process.wait()
