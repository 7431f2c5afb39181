"""Context managers for starting child processes, with any start method."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started within ignore Ctrl-C, which reaches them too; this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may change signal handlers
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Keeps children started within from running this program's main module again.

    They import what they need by name. Running the user's script again would cost time, and a
    script without a `__main__` guard would start children of its own.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
