"""Ends the forkserver with its parent while it imports, which takes seconds.

Python's forkserver looks at its parent only once it serves. Imported by the forkserver first, and
without effect from `served()` on: the kernel's signal comes with the end of the thread that started
the forkserver, which later threads use too. Needs Linux; elsewhere the imports go on to their end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from bench.isolation import STARTED

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def _end_with_parent(parent: int) -> None:
    _signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def _restore(variables: dict[str, str | None]) -> None:
    """The environment as the user has it, for children and what a model starts."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def served() -> None:
    """The imports are made: from now on the forkserver sees the end of its parent itself."""
    _signal_at_parents_end(0)


def _signal_at_parents_end(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


if STARTED in os.environ:
    started = json.loads(os.environ.pop(STARTED))
    _end_with_parent(started["parent"])
    _restore(started["variables"])
