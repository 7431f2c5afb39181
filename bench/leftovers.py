"""What a killed process leaves behind: named after its owner, cleared at the next start."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "modescope-"

HALF_WRITTEN = re.compile(r"\..+?\.(?:parquet|json\.gz|json|pickle)\.(.+)\.partial").fullmatch
"""A file that has not got its name yet, and its owner."""


def owner() -> str:
    """This process, as part of a file's name: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def partial(path: Path) -> Path:
    """What `path` is called while this process writes it; it gets its name once it is complete."""
    return path.with_name(f".{path.name}.{owner()}.partial")


def clear(*folders: Path) -> None:
    """Removes half-written files and compiler caches whose owners are gone from this host."""
    for folder in folders:
        for path in folder.glob(".*.partial"):
            named = HALF_WRITTEN(path.name)
            if named and _is_abandoned(named[1]):
                path.unlink(missing_ok=True)
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
