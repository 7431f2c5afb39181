"""Finds processes by a marker in their command line or environment (Linux)."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path

_numbers = itertools.count()


def marker() -> str:
    """A unique text to find processes by; as a number it is a long duration for `sleep`."""
    return f"{1000 + next(_numbers)}.{os.getpid()}{time.time_ns() % 10**9:09d}"


def alive(marker: str) -> list[int]:
    """Ids of other processes that have `marker` in command line or environment; no zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in text and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def parent(number: int) -> int | None:
    """The id of the parent of process `number`; None if that process has ended."""
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[1])


def soon(holds: Callable[[], object], within_s: float = 2.0) -> bool:
    """Whether `holds()` becomes true within `within_s` seconds; waits for it."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
