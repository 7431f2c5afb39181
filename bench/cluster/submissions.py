"""What drivers have handed to their engine: numbered files, so that one driver submits at a time.

`submissions/<n>.json` is made before submission number n, `<n>.jobs.json` after it.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from modescope.bench.cluster.engines.engine import Engine
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, Member, Process

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


def submit(folder: Folder, engine: Engine, count: int, driver: Member) -> bool:
    """Submits workers, unless another driver does so at this time: then waits until it has."""
    names = folder.names("submissions")
    number = len([name for name in names if not name.endswith(JOBS)])
    if folder.create("submissions", f"{number:04d}", asdict(driver.process)):
        folder.create("submissions", f"{number:04d}{JOBS}", engine.submit(folder, count))
        return True
    _wait(folder, f"{number:04d}")
    return False


def _wait(folder: Folder, name: str) -> None:
    process = Process(**folder.read("submissions", name))
    deadline = time.monotonic() + SUBMITTING_S
    while time.monotonic() < deadline and f"{name}{JOBS}" not in folder.names("submissions"):
        state = process.state()
        if state and state.kind == GONE:
            return
        time.sleep(0.2)
