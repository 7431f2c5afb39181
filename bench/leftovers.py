"""What a killed process leaves behind: named after its owner, cleared at the next start."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "modescope-"


def owner() -> str:
    """This process, as part of a file's name: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def clear(runs: Path) -> None:
    """Removes half-written records and compiler caches whose owners are gone from this host."""
    for partial in runs.glob(".*.partial"):
        owner_name = partial.name.removesuffix(".partial").partition(".parquet.")[2]
        if _is_abandoned(owner_name):
            partial.unlink(missing_ok=True)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder, gone afterwards; at the latest when the next process clears."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{owner()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(name: str) -> bool:
    host, _, process = name.rpartition("-")
    if host != socket.gethostname() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # somebody else's; no process id at all
        return False
    return False
