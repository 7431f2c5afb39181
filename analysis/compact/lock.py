"""One compaction of a study at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"

WAITING = "waiting: another process is compacting this study"


@contextmanager
def alone(folder: Path, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Waits until no other process is in this block for `folder`; a killed one is not.

    Yields whether that is certain: some network file systems have no locks. What must hold without
    a lock, too, is that nothing is removed before it is published elsewhere.
    """
    folder.mkdir(exist_ok=True)
    with (folder / NAME).open("a") as file:
        yield _locked(file.fileno(), on_wait)  # closing the file frees it


def _locked(number: int, on_wait: Callable[[], None]) -> bool:
    if fcntl is None:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
    except OSError:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def sync(folder: Path) -> None:
    """Puts the names in a folder on the disk, so that a power failure keeps them."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError:  # file systems that cannot sync a folder
        pass
    finally:
        os.close(number)
