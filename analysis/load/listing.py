"""The files of a study: those of single runs in runs/, and the parts in compact/."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modescope.analysis.load.remote import Folder, RemotePath, located, unreachable
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner
from modescope.bench.records.sources import COMPACT, MOST_ATTEMPTS, RUNS

_RESULTS = Path("results")  # run.py's default folder of studies
_MOST_NAMED = 10  # studies in a message


@dataclass(frozen=True)
class RunFile:
    """A file in a study's folder; equal records are assumed to have the same content.

    A change that keeps the size and the modification time goes unnoticed. Files of runs and parts
    are written once and never changed.
    """

    name: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """The files of a study, by name; dot-files, which are being written, are not among them."""

    runs: tuple[RunFile, ...]
    parts: tuple[RunFile, ...]


def listing(study_folder: str | Folder) -> Listing:
    """The files of a study, unreadable ones included.

    Raises UsageError if there is no such study, or if it cannot be read.
    """
    folder = located(study_folder)
    runs = parquet_files(folder / RUNS)  # before the parts, see bench.records.sources
    parts = _settled(folder / COMPACT)
    if runs is None and parts is None:
        raise UsageError(_no_study(folder))
    return Listing(runs or (), parts or ())


def _settled(folder: Folder) -> tuple[RunFile, ...] | None:
    """The files of a folder, listed until nothing changes (see `bench.records.sources.parts`)."""
    now = parquet_files(folder)
    for _ in range(MOST_ATTEMPTS):
        before, now = now, parquet_files(folder)
        if before == now:
            break
    return now


def parquet_files(folder: Folder) -> tuple[RunFile, ...] | None:
    """The Parquet files of a folder; None if there is no such folder."""
    listed = _remote(folder) if isinstance(folder, RemotePath) else _local(folder)
    try:
        return tuple(sorted(listed, key=lambda one: one.name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if isinstance(folder, RemotePath):
            raise unreachable(folder, error) from None
        raise UsageError(f"{folder} cannot be read: {error.strerror}") from None


def _is_run_file(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _local(folder: Path) -> Iterator[RunFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _is_run_file(entry.name):
                continue
            try:
                stat = entry.stat()
                yield RunFile(entry.name, stat.st_size, stat.st_mtime_ns)
            except OSError:  # a broken link; reading it gives the reason
                yield RunFile(entry.name, -1, -1)


def _remote(folder: RemotePath) -> Iterator[RunFile]:
    for one in folder.files():
        if _is_run_file(one.base_name):
            yield RunFile(one.base_name, one.size or 0, one.mtime_ns or -1)


def _no_study(folder: Folder) -> str:
    """The message that `folder` holds no study, naming studies nearby."""
    start = f"no study at {folder} (it has no folder runs/ or compact/)"
    if isinstance(folder, RemotePath):
        return f"{start}; name the folder of a study, such as s3://bucket/results/main"
    near = [one for one in (_RESULTS / folder, *folder.parents) if _is_study(one)]
    if near:
        return f"{start}; did you mean {near[0]}?"
    known = _studies(folder) or _studies(_RESULTS)
    if known:
        named = ", ".join(map(str, known))
        return f"{start}; there {'is' if len(known) == 1 else 'are'} {named}"
    return f"{start}; name a study's folder, or measure one with `{runner()} study=NAME`"


def _studies(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if _is_study(one))[:_MOST_NAMED]
    except OSError:
        return []


def _is_study(folder: Path) -> bool:
    try:
        return (folder / RUNS).is_dir() or (folder / COMPACT).is_dir()
    except OSError:
        return False
