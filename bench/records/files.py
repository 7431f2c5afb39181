"""Temporary files, and atomic writes: a file gets its name once it is complete.

Temporary files are named after their owner, so that those of a killed process can be removed.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "modescope-"

HALF_WRITTEN = re.compile(r"\..+?\.(?:parquet|json\.gz|json|pickle)\..+\.partial").fullmatch
"""Name of a file that is still being written; it ends with its owner."""

OLD_S = 86_400.0
"""A half-written file of another host is abandoned after so long: writing one takes seconds."""


def owner() -> str:
    """This process, as part of a file's name: host and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def partial_path(path: Path) -> Path:
    """A temporary name for `path` while this process writes it, unique to each writer."""
    return path.with_name(f".{os.urandom(4).hex()}.{path.name}.{owner()}.partial")


def is_abandoned(partial: Path) -> bool:
    """Whether the owner of a file or folder that `partial_path` named is gone.

    Of this host, by its process; of another host, if it is old.
    """
    name, _, process = partial.name.removesuffix(".partial").rpartition("-")
    host = socket.gethostname()
    if name.endswith(f".{host}"):
        return _is_abandoned(f"{host}-{process}")
    try:
        return age_s(partial) > OLD_S
    except OSError:  # it has just got its name, or the folder is read-only
        return False


def age_s(path: Path) -> float:
    """Seconds since a file was written, by the clock of the file system that holds it.

    Clocks of the machines that share it may differ. Raises OSError where nothing can be written.
    """
    now = partial_path(path)
    try:
        now.touch()
        return now.stat().st_mtime - path.stat().st_mtime
    finally:
        now.unlink(missing_ok=True)


def remove_abandoned(*folders: Path) -> None:
    """Removes half-written files whose owners are gone, and this host's such compiler caches."""
    for folder in folders:
        for path in folder.glob(".*.partial"):
            if HALF_WRITTEN(path.name) and is_abandoned(path):
                path.unlink(missing_ok=True)
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if _is_abandoned(folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder, removed afterwards; by `remove_abandoned` if this process is killed."""
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


WITHOUT_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK)
"""How file systems refuse links that have none, as those of many memory cards and network drives.

After any other error, as of a full disk, there must be no file under the final name.
"""


@contextmanager
def atomic_write(path: Path, *, sync: bool = False, overwrite: bool = True) -> Iterator[Path]:
    """Yields the path to write to; the file becomes `path` when the block ends without an error.

    Folders are made as needed. Nothing appears where the block raises or leaves no file. With
    `sync` the content is on the disk before the name appears. Without `overwrite` an existing
    `path` stays and FileExistsError is raised. Raises OSError where the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    try:
        yield partial
        if partial.exists():
            if sync:
                with partial.open("rb") as file:
                    os.fsync(file.fileno())
            (os.replace if overwrite else _create)(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _create(partial: Path, path: Path) -> None:
    """Gives the complete file its name; raises FileExistsError where that is taken.

    Of several processes that do so at once, on any machines that share the folder, one succeeds.
    """
    try:
        os.link(partial, path)  # unlike a rename, a link never overwrites
    except FileExistsError:
        # NFS may repeat a request whose answer was lost: the name that is taken is then ours
        if os.stat(partial).st_nlink != 2:
            raise
    except OSError as error:
        if error.errno not in WITHOUT_LINKS:
            raise
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))  # takes the name
        try:
            os.replace(partial, path)
        except OSError:
            os.unlink(path)
            raise
