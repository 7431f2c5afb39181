"""Workers on this machine, one for each GPU; one for all cases on the CPU."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import modescope
from modescope.bench.cluster import members
from modescope.bench.cluster.engine import Jobs
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, Process, State
from modescope.bench.records.cores import physical_cores, which_cores
from modescope.bench.sweep.isolation import how_it_ended

END_S = 20.0
"""Time for a worker to end its case and itself."""


@dataclass(frozen=True)
class Slot:
    """What one worker gets of the machine."""

    gpu: str | None  # for CUDA_VISIBLE_DEVICES; None leaves that as it is
    cores: tuple[int, ...]


def slots(gpus: Sequence[str]) -> list[Slot]:
    """A slot for each GPU with its share of the cores; without GPUs one with all of them.

    No two share a physical core where there are enough: each would slow down the other.
    """
    cores = which_cores()
    if not gpus:
        return [Slot(None, tuple(cores))]
    whole = physical_cores(cores)
    dealt = whole if len(whole) >= len(gpus) else [[core] for core in cores]
    share = max(1, len(dealt) // len(gpus))
    parts = [tuple(chain(*dealt[n * share : (n + 1) * share])) for n in range(len(gpus))]
    return [Slot(gpu, part or tuple(cores)) for gpu, part in zip(gpus, parts, strict=True)]


class Local:
    """See `bench.cluster.engine.Engine`."""

    name = "local"
    detaches = False
    pause_s = 0.2

    def __init__(self, slots: Sequence[Slot], minutes: float | None = None) -> None:
        self._slots, self._minutes = slots, minutes
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._unknown_since: dict[str, float] = {}

    def logs(self, folder: Folder) -> Path:
        """See `Engine`."""
        return folder.part("logs")

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        """See `Engine`."""
        jobs = {}
        for number, slot in enumerate(self._slots[:count]):
            name = f"{secrets.token_hex(3)}-{number}"
            child = _started(folder, name, slot, self._minutes)
            self._children[name] = child
            jobs[name] = asdict(Process.of(child.pid))
        return jobs

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        """See `Engine`."""
        return {name: self._state(name, process) for name, process in jobs.items()}

    def _state(self, name: str, process: Any) -> State:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return State(GONE, f"its process ended {how_it_ended(child.returncode)}")
        # without an entry it is the child of another driver, perhaps on another machine
        if found := Process(**process).state() if process else None:
            return found
        # a worker that has joined gives signs of life; this is for one that has not
        since = self._unknown_since.setdefault(name, time.monotonic())
        if time.monotonic() - since > members.SILENT_S:
            return State(GONE, "it has not started on another machine")
        return State(members.RUNNING)

    def end(self, jobs: Jobs) -> None:
        """See `Engine`."""
        children = self._children.values()
        for child in children:
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_S
        for child in children:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin:
                child.stdin.close()

    def how_to_end(self, jobs: Jobs) -> str:
        """See `Engine`."""
        return "Ctrl-C"


def _started(
    folder: Folder, name: str, slot: Slot, minutes: float | None
) -> subprocess.Popen[bytes]:
    """A worker, which ends with this process: it reads the other end of a pipe."""
    spec = {"scheduler": Local.name, "job": name, "cores": slot.cores}
    environment = {**os.environ, **variables(spec)}
    if slot.gpu is not None:
        environment["CUDA_VISIBLE_DEVICES"] = slot.gpu
    with (folder.part("logs") / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            command(folder, minutes),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches this process, which ends them
        )


def command(folder: Folder, minutes: float | None) -> list[str]:
    """Starts a worker."""
    limit = [] if minutes is None else ["--minutes", str(minutes)]
    return [sys.executable, "-P", "-m", "modescope.bench.worker", str(folder.path), *limit]


def variables(spec: dict[str, Any]) -> dict[str, str]:
    """Of a worker that ends with the process that starts it, by a pipe as its stdin.

    `spec`: see `members.VARIABLE`.
    """
    root = str(Path(modescope.__file__).absolute().parents[1])
    return {
        members.VARIABLE: json.dumps({**spec, "ends_with_parent": True}),
        members.SUBMITTED: str(time.time()),
        "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
    }
