"""Temporary files, and atomic writes: a file gets its name only once it is complete.

The name of a temporary file contains the host and the process that made it, so that the files of a
killed process can be found and removed.
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
"""The beginning of the name of a temporary folder."""


def owner() -> str:
    """Returns `<host>-<process id>`, a part of temporary files' names that says who made them."""
    return f"{socket.gethostname()}-{os.getpid()}"


def remove_abandoned(*folders: Path) -> None:
    """Removes the files that killed processes of this host have left.

    These are half-written files in `folders`, and modescope's temporary folders.
    """
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


def make_folder() -> Path:
    """Returns a temporary folder, which `remove_abandoned` removes once this process has ended."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{owner()}-"))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yields a temporary folder and removes it afterwards.

    If this process is killed, a later `remove_abandoned` removes it.
    """
    folder = make_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_write(path: Path, *, sync: bool = False) -> Iterator[Path]:
    """Yields a temporary path to write to, which is renamed to `path` when the block ends.

    Missing folders are made. If the block raises or writes no file, `path` stays as it was. With
    `sync` the content is on the disk before the rename. Raises OSError if the file cannot be
    written.
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
