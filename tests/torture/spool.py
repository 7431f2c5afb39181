"""A scheduler whose state is a folder: jobs outlive the command that submits them.

spool/<job>.json   process and restart of a job; without it the job is unknown
down               while it exists, the scheduler does not answer
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from modescope.bench.cluster import members
from modescope.bench.cluster.engine import Jobs
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, Process, State
from modescope.bench.records.errors import UsageError
from tests.torture import clocks, scene

STARTING_S = 10.0
"""Longest time from a submission until its process has started."""

_replace = os.replace  # the round replaces os.replace by one that fails


class Spool:
    """See `bench.cluster.engine.Engine`."""

    name = "spool"
    detaches = True
    pause_s = 0.05

    def __init__(self, place: Path) -> None:
        self._place = place

    def logs(self, folder: Folder) -> Path:
        return self._place / "logs"

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        if (self._place / "down").exists():
            raise UsageError("the scheduler refused the workers: it does not answer")
        names = [f"{secrets.token_hex(3)}_{number}" for number in range(count)]
        for name in names:
            start(self._place, folder.path, name)
        return dict.fromkeys(names)

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        if (self._place / "down").exists():
            return None
        return {name: _state(self._place, name) for name in jobs}

    def end(self, jobs: Jobs) -> None:
        pass

    def how_to_end(self, jobs: Jobs) -> str:
        return "spoolcancel"


def start(place: Path, folder: Path, name: str, restart: int = 0) -> None:
    """Starts a job, or starts it again."""
    begun = {"time": time.monotonic(), "folder": str(folder), "restart": restart}
    write(place, name, {**begun, "process": None})
    spec = {"scheduler": Spool.name, "job": name, "restart": restart}
    start_worker(place, folder, {members.VARIABLE: json.dumps(spec)}, name)


def start_worker(place: Path, folder: Path, more: dict[str, str], log: str) -> None:
    """Starts a worker on one of the machines, by one of the clocks."""
    known, draw = scene.scene(place), random.SystemRandom()
    skew = draw.choice(clocks.SKEWS_S) if known.skews else 0
    host = draw.choice(scene.HOSTS) if known.hosts else ""
    with (place / "logs" / f"{log}.log").open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", "tests.torture.process", "worker", str(folder), host],
            env={**_unskewed(scene.variables(place, skew), skew), **more},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _unskewed(variables: dict[str, str], skew: int) -> dict[str, str]:
    """Without the clock of the command that starts the job."""
    own = () if skew else ("LD_PRELOAD", "MODESCOPE_SKEW_S")
    return {key: value for key, value in variables.items() if key not in own}


def write(place: Path, name: str, content: dict[str, Any]) -> None:
    """Sets what is known of a job."""
    partial = place / "spool" / f".{name}-{os.getpid()}"
    partial.write_text(json.dumps(content))
    _replace(partial, place / "spool" / f"{name}.json")


def read(place: Path, name: str) -> dict[str, Any] | None:
    """What is known of a job; None where it is unknown."""
    try:
        content: dict[str, Any] = json.loads((place / "spool" / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    return content


def register(place: Path, name: str, restart: int) -> None:
    """Called by the process of a job."""
    content = read(place, name)
    if content and content["restart"] == restart:
        write(place, name, {**content, "process": [os.getpid(), Process.of(os.getpid()).began]})


def jobs(place: Path) -> list[str]:
    """All jobs that are known."""
    return sorted(path.stem for path in (place / "spool").glob("[!.]*.json"))


def _state(place: Path, name: str) -> State:
    content = read(place, name)
    if content is None:
        return State(GONE, "the scheduler does not know its job any more")
    if content["process"]:
        pid, began = content["process"]  # its host's name may be another one than here
        lives = Process.of(pid).began == began
        return State(RUNNING) if lives else State(GONE, "its process ended")
    if time.monotonic() - content["time"] > STARTING_S:
        return State(GONE, "it was never started")
    return State(PENDING)
