"""Kills the forkserver if its parent dies during the forkserver's imports, which take seconds.

Python's forkserver checks its parent only once it serves. The forkserver imports this module first.
`served()` switches the signal off again: the kernel sends it when the thread that started the
forkserver ends, but later threads use the forkserver too. Linux only; elsewhere imports finish.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from modescope.bench.sweep.process.isolation import STARTED, restore

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def _end_with_parent(parent: int) -> None:
    _signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def served() -> None:
    """Call it after the imports: from then on the forkserver notices its parent's end itself."""
    _signal_at_parents_end(0)


def _signal_at_parents_end(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


if STARTED in os.environ:
    started = json.loads(os.environ.pop(STARTED))
    _end_with_parent(started["parent"])
    restore(started["variables"])  # for children, and what a model starts
