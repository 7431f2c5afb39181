"""A process of a round: `python -m tests.torture.process driver | worker FOLDER [HOST]`."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from modescope.bench.cluster import (
    driver,
    folder,
    generations,
    members,
    submissions,
    worker,
    worker_process,
)
from modescope.bench.cluster.local_engine import Local, Slot
from modescope.bench.records import leftovers
from modescope.bench.sweep import executors, main
from tests.torture import plants, scene
from tests.torture.spool import Spool, register

NEW_NAME = 0x04000000
"""CLONE_NEWUTS: a name of the machine that only this process sees."""

OPERATIONS = ("link", "replace", "rename", "unlink", "mkdir")

OLD_S = 2.0

SHORTER = (
    (leftovers, "OLD_S", OLD_S),
    (members, "BEAT_S", 0.25),
    (members, "SILENT_S", 5.0),
    (submissions, "SUBMITTING_S", 5.0),
    (driver, "POLL_FIRST_S", 0.02),
    (driver, "POLL_LAST_S", 0.2),
    (worker, "LOCKED_S", 0.05),
)
"""Constants of modescope that a round shortens."""


def set_up(place: Path) -> None:
    """Shortens times, lets file operations fail, and plants the round's fault; once a process."""
    if getattr(os, "_tortured", False):
        return
    os._tortured = True  # type: ignore[attr-defined]
    known = scene.scene(place)
    for module, name, value in SHORTER:
        setattr(module, name, value)
    if known.crashes:
        for name in OPERATIONS:
            setattr(os, name, _failing(getattr(os, name), place, known.crashes))
    if known.plant:
        plants.PLANTS[known.plant].plant()


def _failing(operation: Callable[..., Any], place: Path, probability: float) -> Callable[..., Any]:
    """The operation, which now and then fails, or kills its process before or after it."""

    def tried(*arguments: Any, **options: Any) -> Any:
        if random.random() >= probability or (place / "calm").exists():
            return operation(*arguments, **options)
        how = random.choice(("before", "after", "error"))
        scene.note(place, "disturbed")
        if how == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(arguments[0]))
        if how == "after":
            operation(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    return tried


def clear(study: Path) -> None:
    """What a start of real cases removes."""
    for partial in (study / "runs").glob(".*.partial"):
        if leftovers.is_abandoned(partial):
            partial.unlink(missing_ok=True)


def drive(place: Path) -> int:
    """The command of the user: everything but composing and the table is modescope's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    set_up(place)

    def submit(requests: Sequence[Any]) -> executors.Submission:
        sweep, known = scene.sweep(place), scene.scene(place)
        slots = [Slot(f"GPU-{number}", (0,)) for number in range(known.workers)]
        engine = Spool(place) if known.engine == "spool" else Local(slots)
        study = scene.study(place)
        name = folder.sweep_id(sweep, known.engine)
        joined = generations.joined(study / "jobs", name, sweep, engine)
        follow = driver.Driver(joined.folder, engine, known.workers)
        return executors.Submission(study, len(sweep.tasks), follow.finished(), engine.detaches)

    def composed(words: Sequence[str] | None = None) -> list[Any]:
        print("ready", flush=True)
        return [SimpleNamespace(sweep=True)]

    vars(main)["composed"] = composed
    executors.submit = submit
    return main.main(lambda study, run_ids, is_sweep: 0, lambda study, run_ids: [])


def work(place: Path, path: str, host: str = "") -> int:
    """A worker, on a machine with another name if one is given."""
    if host:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NAME):
            raise OSError(ctypes.get_errno(), "unshare")
        socket.sethostname(host)
    set_up(place)
    if members.VARIABLE in os.environ:
        spec = json.loads(os.environ[members.VARIABLE])
        register(place, spec["job"], spec["restart"])
    return worker_process.main([path])


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    sys.exit(drive(scene.place()) if role == "driver" else work(scene.place(), *rest))
