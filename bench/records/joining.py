"""Joins the files of a study's rows, which are then read a hundred times as fast.

Nothing is removed before its rows are in another file, complete, on the disk and read back. So a
kill at any moment, a second compaction and a sweep beside it lose nothing; at worst a row is there
twice, which readers count once and the next compaction clears.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from modescope.bench.records import files, rows
from modescope.bench.records.files import atomic_write
from modescope.bench.records.parquet import DETAILS, STORED, rewrite, unpack

GROWTH = 2
"""A joined file is joined with smaller ones if it has at most so many times their rows: each row is
then written again a few times in all, however often its study is compacted."""

LOCAL = fs.LocalFileSystem()
GROUP_ROWS = 2000  # in a row group: 20 to 100 MB of samples
_LISTS = {"row_flags", "details", "samples"}
_SCALARS = [name for name in STORED.names if name not in _LISTS]
_FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": _SCALARS,
    "write_statistics": _SCALARS,
    "write_page_checksum": True,
    "store_schema": False,
}

Change = Callable[[pa.Table], pa.Table]
"""Other values in some columns of rows, which have those of SCHEMA."""


@dataclass
class Outcome:
    """What a compaction did."""

    joined: int = 0  # rows that were written into a joined file
    removed: int = 0  # files whose rows are in one now
    left: dict[str, str] = field(default_factory=dict)  # path -> why it stays


def join(folder: Path, change: Change | None = None) -> Outcome:
    """Joins the loose files of a folder, and joined files that are not much larger.

    With `change`, which is applied to the rows, all files of the folder. Waits until another
    compaction of the folder has ended. Raises OSError if it cannot be written.
    """
    done = Outcome()
    with _alone(folder):
        files.remove_abandoned(folder)
        chosen, others = (rows.files(folder) or [], []) if change else _chosen(folder)
        if len(chosen) > 1 or (change and chosen):
            _join(folder, chosen, others, done, change)
    return done


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other process is in this block for `folder`; a killed one is not.

    Some network file systems have no locks; nothing is lost without.
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)  # which frees the lock


def _chosen(folder: Path) -> tuple[list[str], list[str]]:
    """The files to join, and the other joined ones."""
    paths = rows.files(folder) or []
    chosen, others = [path for path in paths if not rows.is_joined(path)], []
    total: float = len(chosen)
    for count, path in sorted(map(_row_count, filter(rows.is_joined, paths))):
        if count <= GROWTH * total:
            chosen.append(path)
            total += count
        else:
            others.append(path)
    return chosen, others


def _row_count(path: str) -> tuple[float, str]:
    """How many rows a joined file has; an unreadable one is never joined."""
    try:
        return pq.read_metadata(path).num_rows, path
    except (OSError, pa.ArrowException):
        return float("inf"), path


def _join(
    folder: Path,
    chosen: Sequence[str],
    others: Sequence[str],
    done: Outcome,
    change: Change | None,
) -> None:
    inside = {run_id: path for path in others for run_id in _ids(path)}
    path = folder / f"{rows.JOINED}{os.urandom(8).hex()}.parquet"
    written: dict[str, None] = {}
    with atomic_write(path, sync=True, overwrite=False) as partial:
        with pq.ParquetWriter(partial, STORED, **_FORMAT) as writer:
            for table in _groups(chosen, done.left):
                places = {}
                for place, run_id in enumerate(table["run_id"].to_pylist()):
                    there = run_id in written or (run_id in inside and _is_whole(inside[run_id]))
                    if not there:
                        places[run_id] = place
                        written[run_id] = None
                new = table.take(pa.array(places.values(), pa.int64()))
                writer.write_table(rewrite(new, change) if change else new)
        if not written:  # all rows are in other files
            partial.unlink()
        elif _ids(partial) != [*written] or not _is_whole(str(partial)):
            raise OSError(f"{path} does not hold what was written")
    _sync(folder)
    done.joined = len(written)
    for one in chosen:
        if one not in done.left:
            Path(one).unlink(missing_ok=True)
            done.removed += 1


def _groups(paths: Sequence[str], left: dict[str, str]) -> Iterator[pa.Table]:
    """The rows of these files, a row group at once; files that have to stay go to `left`."""
    waiting: list[pa.Table] = []
    for table in _tables(paths, left):
        waiting.append(table)
        if sum(map(len, waiting)) >= GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    yield pa.concat_tables([STORED.empty_table(), *waiting])


def _tables(paths: Sequence[str], left: dict[str, str]) -> Iterator[pa.Table]:
    """A file with a column that is not in the schema stays: a later modescope wrote it."""
    for path in paths:
        try:
            if more := {*pq.read_schema(path).names} - {*STORED.names}:
                left[path] = f"has unknown columns ({', '.join(sorted(more)[:3])})"
                continue
            for group in rows.groups(path, STORED, LOCAL):
                found = rows.valid(group, left).select(STORED.names)
                unpack(found, DETAILS)  # raises where they are none
                yield found
        except FileNotFoundError:
            continue
        except (OSError, ValueError, pa.ArrowException) as error:
            left[path] = rows.why_not(error)


def _ids(path: str | Path) -> list[str]:
    """The runs of a joined file; none if it cannot be read."""
    try:
        with pq.ParquetFile(path) as file:
            ids: list[str] = file.read(columns=["run_id"])["run_id"].to_pylist()
        return ids
    except (OSError, pa.ArrowException, KeyError):
        return []


@cache
def _is_whole(path: str) -> bool:
    """Whether every page of a joined file can be read."""
    try:
        return sum(map(len, rows.groups(path, STORED, LOCAL))) > 0
    except (OSError, pa.ArrowException):
        return False


def _sync(folder: Path) -> None:
    """Puts the names in a folder on the disk, so that a power failure keeps them."""
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # file systems that cannot sync a folder
            os.fsync(number)
    finally:
        os.close(number)
