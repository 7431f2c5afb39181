"""How many cores may this process use? Needs the standard library alone."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that the process is allowed on; where no system call says so (macOS), all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
