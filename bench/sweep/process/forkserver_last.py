"""Exits silently if the parent dies before sending work. Only the forkserver imports this module.

If a sweep is killed or interrupted while it starts a child, the forkserver or the child reads the
end of a pipe instead of a message, and Python would print a traceback on the user's terminal.
See multiprocessing.reduction.recvfds and multiprocessing.spawn._main. The forkserver also exits at
once: unloading its imports would keep a core busy for a second or more after the sweep.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType

from modescope.bench.sweep.process import forkserver_first


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


def _leave(process: int) -> None:
    if os.getpid() == process:
        os._exit(0)


sys.excepthook = _show
atexit.register(_leave, os.getpid())
forkserver_first.served()
