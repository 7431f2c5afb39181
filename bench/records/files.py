"""Atomic writes: a file gets its name once it is complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modescope.bench.records import leftovers

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
    partial = leftovers.partial(path)
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
