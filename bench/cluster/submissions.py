"""What drivers have handed to their engine: numbered files, so that one driver submits at a time.

`submissions/<n>.json` is made before submission number n, `<n>.jobs.json` after it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, Process

SUBMITTING_S = 120.0
"""Longest time that a driver of another machine may take to submit."""

JOBS = ".jobs"


def jobs(folder: Folder) -> dict[str, Any]:
    """All jobs that were ever submitted, as `Engine.submit` returned them."""
    found: dict[str, Any] = {}
    for name in sorted(folder.names("submissions")):
        if name.endswith(JOBS):
            found |= folder.read("submissions", name)
    return found


class Submissions:
    """The submissions of a folder, as one driver sees them."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._count = 0
        self._seen: dict[str, float] = {}

    def look(self) -> bool:
        """Whether another driver is submitting workers; call it before asking for states."""
        names = self._folder.names("submissions")
        begun = sorted(name for name in names if not name.endswith(JOBS))
        self._count = len(begun)
        return bool(begun) and f"{begun[-1]}{JOBS}" not in names and self._is_going_on(begun[-1])

    def _is_going_on(self, name: str) -> bool:
        state = Process(**self._folder.read("submissions", name)).state()
        since = self._seen.setdefault(name, time.monotonic())
        is_late = time.monotonic() - since > SUBMITTING_S
        return not is_late and not (state and state.kind == GONE)

    def submit(self, engine: Engine, count: int) -> bool:
        """Submits workers; False where another driver has done so since `look`.

        Raises UsageError where the engine refuses them.
        """
        name = f"{self._count:04d}"
        if not self._folder.create("submissions", name, asdict(Process.of(os.getpid()))):
            return False
        with deferred():  # else nobody knew of the jobs
            submitted: dict[str, Any] = {}
            try:
                submitted = engine.submit(self._folder, count)
            finally:  # a submission that was refused has ended, too
                self._folder.create("submissions", f"{name}{JOBS}", submitted)
        return True


@contextmanager
def deferred() -> Iterator[None]:
    """Delays Ctrl-C and SIGTERM until its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for signum in came[:1]:
            signal.raise_signal(signum)
