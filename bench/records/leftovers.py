"""Temporary files: named after their owner, so that those of a killed process can be removed."""

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
"""Name of a file that is still being written, with its owner."""


def owner() -> str:
    """This process, as part of a file's name: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def partial(path: Path) -> Path:
    """A temporary name for `path` while this process writes it, unique to each writer."""
    return path.with_name(f".{os.urandom(4).hex()}.{path.name}.{owner()}.partial")


def is_abandoned(partial: Path) -> bool:
    """Whether the owner of a file or folder that `partial` named is gone from this host."""
    name, _, process = partial.name.removesuffix(".partial").rpartition("-")
    host = socket.gethostname()
    return name.endswith(f".{host}") and _is_abandoned(f"{host}-{process}")


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
    """A temporary folder, removed afterwards, or by the next `clear` if this process is killed."""
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
    except (PermissionError, OverflowError):  # another user's process; not a process id
        return False
    return False
