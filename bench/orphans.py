"""Processes whose parent ended before it could tell them what to do end without a word.

Imported by the forkserver and by nothing else. Where a sweep is killed or interrupted while it asks
for a child, the forkserver or the child finds the end of a pipe where a message should be. Python
would print a traceback of that on the user's terminal, below what the sweep says on Ctrl-C.
See multiprocessing.reduction.recvfds and multiprocessing.spawn._main.

The forkserver also ends at once: taking apart what it imported would keep a core busy for a second
after the sweep, and longer beside other load.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType

from bench import starting


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError):
        sys.__excepthook__(kind, error, trace)


def _leave(process: int) -> None:
    if os.getpid() == process:
        os._exit(0)


sys.excepthook = _show
atexit.register(_leave, os.getpid())
starting.served()
