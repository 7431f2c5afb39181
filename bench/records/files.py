"""Temporary files, and atomic writes: a file gets its name once it is complete.

Temporary files are named after their owner, so that those of a killed process can be removed.
"""

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


def owner() -> str:
    """This process, as part of a file's name: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def remove_abandoned(*folders: Path) -> None:
    """Removes what killed processes of this host left: half-written files, and compiler caches."""
    host = re.escape(socket.gethostname())
    half_written = re.compile(rf"\..+\.{host}-(\d{{1,9}})\.partial")
    cache = re.compile(rf"{PREFIX}{host}-(\d{{1,9}})-[^-]+")
    places = [(folder, half_written) for folder in folders]
    for folder, pattern in (*places, (Path(tempfile.gettempdir()), cache)):
        for path in folder.glob("*"):
            named = pattern.fullmatch(path.name)
            if named and not _is_running(int(named[1])):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder, removed afterwards; by `remove_abandoned` if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{owner()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yields the path to write to; the file becomes `path` when the block ends without an error.

    Folders are made as needed. Nothing appears where the block raises or leaves no file. With
    `sync` the content is on the disk before the name appears. Raises OSError where the file cannot
    be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{os.urandom(4).hex()}.{path.name}.{owner()}.partial")
    try:
        yield partial
        if partial.exists():
            if sync:
                with partial.open("rb") as file:
                    os.fsync(file.fileno())
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
