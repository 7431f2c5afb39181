"""What was read of a study's files, kept beside nobody's results for the next reader.

The files of a study stay the truth. The cache lies in the user's cache folder, one file for each
study, and says nothing about files that changed since. It is believed only as a whole, and only by
the very code that wrote it: the first line holds a digest of that code and one of what follows.
Whatever else lies there is as good as nothing, and is written anew. It is replaced in one step, so
readers at the same time see an old or a new one; the last to write wins, and the others' work is
read once more.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from bench.store import SCHEMA

log = logging.getLogger(__name__)

_SOURCES = ("analysis", "bench")  # any of their modules may change an answer
_LIBRARIES = ("numpy", "pandas", "pyarrow")


def kept(study: Path) -> pa.Table | None:
    """What `keep` was given for the study; None where nothing is there that can be believed."""
    try:
        first, _, content = _path(study).read_bytes().partition(b"\n")
        if first != _first_line(study, content):
            return None
        with pa.ipc.open_file(pa.BufferReader(content)) as file:
            return file.read_all()
    except (OSError, pa.ArrowException):
        return None


def keep(study: Path, table: pa.Table) -> None:
    """Remembers `table` for the study; without a word where that cannot be done."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(sink, table.schema, options=options) as file:
        file.write_table(table)
    content = sink.getvalue().to_pybytes()
    path = _path(study)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _forget_lost(path.parent)
        _replace(path, (_first_line(study, content), b"\n", content))
    except OSError as error:
        log.debug("no cache for %s: %s", study, error)


def folder() -> Path:
    """Where caches lie: $XDG_CACHE_HOME/modescope, by default ~/.cache/modescope."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()) / "modescope"


def _path(study: Path) -> Path:
    name = hashlib.blake2b(str(study.resolve()).encode(), digest_size=12).hexdigest()
    return folder() / f"runs-{name}.arrow"


def _first_line(study: Path, content: bytes) -> bytes:
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    told = {"study": str(study.resolve()), "reader": reader(), "content": digest}
    return json.dumps(told).encode()


@cache
def reader(root: Path = Path(__file__).parent.parent) -> str:
    """A digest of all that decides what is read of a file: schema, libraries, source in `root`."""
    digest = hashlib.blake2b(str(SCHEMA).encode(), digest_size=16)
    for name in _LIBRARIES:
        digest.update(f"{name} {version(name)}\n".encode())
    for path in sorted(path for name in _SOURCES for path in (root / name).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _forget_lost(caches: Path) -> None:
    """Removes the caches of studies that are gone; what cannot be read is left alone."""
    for path in caches.glob("runs-*.arrow"):
        try:
            with path.open("rb") as file:
                study = json.loads(file.readline(4096))["study"]
            if not Path(study).exists():
                path.unlink()
        except (OSError, ValueError, KeyError, TypeError):
            continue


def _replace(path: Path, parts: Sequence[bytes]) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            for part in parts:
                file.write(part)
            file.flush()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
