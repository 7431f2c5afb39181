"""Ends the forkserver with its parent while it imports, which takes seconds.

Python's forkserver looks at its parent only once it serves. Imported by the forkserver first, and
without effect from `served()` on: the kernel's signal comes with the end of the thread that started
the forkserver, which later threads use too. Needs Linux; elsewhere the imports go on to their end.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from bench.isolation import PARENT

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def _end_with_parent() -> None:
    _signal_at_parents_end(signal.SIGKILL)
    parent = os.environ.pop(PARENT, None)  # children have another one
    if parent is not None and os.getppid() != int(parent):  # it ended before the line above
        os._exit(1)


def served() -> None:
    """The imports are made: from now on the forkserver sees the end of its parent itself."""
    _signal_at_parents_end(0)


def _signal_at_parents_end(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


_end_with_parent()
