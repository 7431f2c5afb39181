"""The forkserver's own code, which only it imports: imports torch, and ends with its parent.

Python's forkserver notices its parent's end only once it serves, and its imports take seconds: for
that time the kernel kills it (Linux only; elsewhere the imports finish). Not for longer, as the
kernel's signal comes when the thread that started the forkserver ends.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from types import TracebackType

from modescope.bench.sweep.isolation import STARTED, restore

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def _import(names: Sequence[str], parent: int) -> None:
    """Imports modules and calls functions ("module:name") while the parent lives."""
    _ask_for_signal(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)
    for name in names:
        with contextlib.suppress(ImportError):  # which the child that needs it says
            module, _, function = name.partition(":")
            found = importlib.import_module(module)
            if function:
                getattr(found, function)()
    _ask_for_signal(0)


def _ask_for_signal(number: int) -> None:
    """At the parent's end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Nothing if the parent was killed while it started a child.

    The forkserver and the child then read the end of a pipe instead of a message
    (multiprocessing.reduction.recvfds, multiprocessing.spawn._main).
    """
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


def _leave(process: int) -> None:
    """Ends the forkserver at once: unloading its imports keeps a core busy for a second or more."""
    if os.getpid() == process:
        os._exit(0)


if STARTED in os.environ:
    started = json.loads(os.environ.pop(STARTED))
    restore(started["variables"])  # for children, and what a model starts
    _import(started["imports"], started["parent"])
    sys.excepthook = _show
    atexit.register(_leave, os.getpid())
