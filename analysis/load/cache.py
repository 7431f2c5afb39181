"""Per-user cache of parsed runs: one file for the runs of a study, and one for each of its parts.

A cache file is valid only as a whole and only for the code that wrote it: its first line holds a
digest of that code and one of the content. Any other file is ignored and rewritten. Writes are
atomic, so concurrent readers see an old or a new file; the last writer wins, and entries that it
does not have are parsed again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs
import pyarrow as pa

from modescope.analysis.load.remote import MARK, Folder
from modescope.bench.records.files import atomic_write
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.paths import ROOT

log = logging.getLogger(__name__)

SOURCES = ("analysis/format", "analysis/load", "analysis/rows", "bench/records", "bench/stats")
"""The rooms that may change what is read: this one, and those that it may import."""

_LIBRARIES = ("numpy", "pandas", "pyarrow")
_SUFFIX = ".arrow"
_PARTIAL = f".*{_SUFFIX}.*.partial"  # name of a file that is being written
_UNUSED_S = 30 * 86400.0  # a cache of a remote study is kept for so long after it was written
_LONGEST_WRITE_S = 3600.0  # a write takes seconds; an older partial file has no writer any more


def load(study: Folder) -> pa.Table | None:
    """The table that `store` saved for the study, or for the part; None without a valid file."""
    try:
        first, _, content = _path(study).read_bytes().partition(b"\n")
        if first != _first_line(study, content):
            return None
        with pa.ipc.open_file(pa.BufferReader(content)) as file:
            return file.read_all()
    except (OSError, pa.ArrowException):
        return None


def store(study: Folder, table: pa.Table) -> None:
    """Saves `table` for the study or part; does nothing if the cache cannot be written."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as file:
        file.write_table(table)
    content = sink.getvalue().to_pybytes()
    try:
        path = _path(study)
        _remove_stale(path.parent)
        with atomic_write(path) as partial, partial.open("wb") as file:
            file.writelines((_first_line(study, content), b"\n", content))
    except OSError as error:
        log.debug("no cache for %s: %s", study, error)


def folder() -> Path:
    """The system's folder for a user's caches, on Linux ~/.cache/modescope.

    Raises FileNotFoundError if the user has no home folder, as in many containers.
    """
    try:
        return platformdirs.user_cache_path("modescope", appauthor=False)
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None


def _path(study: Folder) -> Path:
    name = hashlib.blake2b(str(study.resolve()).encode(), digest_size=12).hexdigest()
    return folder() / f"runs-{name}{_SUFFIX}"


def _first_line(study: Folder, content: bytes) -> bytes:
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    header = {"study": str(study.resolve()), "reader": reader(), "content": digest}
    return json.dumps(header).encode()


@cache
def reader(root: Path = ROOT) -> str:
    """A digest of all that determines a parsed run: schema, libraries, source in `root`."""
    digest = hashlib.blake2b(str(SCHEMA).encode(), digest_size=16)
    for name in _LIBRARIES:
        digest.update(f"{name} {version(name)}\n".encode())
    for path in sorted(path for name in SOURCES for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _remove_stale(caches: Path) -> None:
    """Removes caches of deleted studies and partial files of killed writers."""
    for name, is_stale in ((f"runs-*{_SUFFIX}", _is_orphan), (_PARTIAL, _is_abandoned)):
        for path in caches.glob(name):
            with suppress(OSError):  # another process may have removed it
                if is_stale(path):
                    path.unlink()


def _is_orphan(path: Path) -> bool:
    """Whether a cache's study is deleted, or remote and old; False for a file that names none."""
    with path.open("rb") as file:
        first = file.readline(4096)
    try:
        study = str(json.loads(first)["study"])
    except (ValueError, KeyError, TypeError):
        return False
    return _is_older(path, _UNUSED_S) if MARK in study else not Path(study).exists()


def _is_abandoned(path: Path) -> bool:
    return _is_older(path, _LONGEST_WRITE_S)


def _is_older(path: Path, seconds: float) -> bool:
    return time.time() - path.stat().st_mtime > seconds
