"""Processes whose parent ended before it could tell them what to do end without a word.

Imported by the forkserver and by nothing else. Where a sweep is killed or interrupted while it asks
for a child, the forkserver or the child reads half a message; a traceback of that would appear on
the user's terminal, after the answer to Ctrl-C. Other errors are shown as ever.
"""

from __future__ import annotations

import pickle
import sys
from types import TracebackType

HALF_A_MESSAGE = (EOFError, pickle.UnpicklingError)
"""Nothing came, or the beginning of it; see multiprocessing.reduction.recvfds and spawn._main."""


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, HALF_A_MESSAGE):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _show
