"""Which cores may this process use? Needs the standard library alone."""

from __future__ import annotations

import os


def which_cores() -> list[int]:
    """The numbers of those it is allowed on; of all where no system call says so (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """How many there are of them."""
    return len(which_cores())
