"""Joins a study's files of one row each into one file, which is read a hundred times as fast.

A file is removed only once its rows are in another one that is complete and on the disk. So no row
is lost if the process is killed, or if another compaction or a sweep runs at the same time. At
worst a row is in two files: readers count it once, and the next compaction removes the copy.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from modescope.bench.records import files, rows
from modescope.bench.records.files import atomic_write
from modescope.bench.records.parquet import DETAILS, FORMAT, SCHEMA, STORED, pack, unpack

GROUP_ROWS = 2000  # in a row group: 20 to 100 MB of samples

Change = Callable[[pa.Table], pa.Table]
"""A function that returns the given rows (with the columns of SCHEMA) with some values changed."""


@dataclass
class Outcome:
    """What one call of `join` did."""

    joined: int = 0  # rows that were written into a joined file
    removed: int = 0  # files whose rows are in it now
    left: dict[str, str] = field(default_factory=dict)  # path -> why it stays


def join(folder: Path, change: Change | None = None) -> Outcome:
    """Joins all files of a folder, with `change` applied to their rows.

    Waits until another compaction of the folder has ended. Raises OSError if it cannot be written.
    """
    done = Outcome()
    directory = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network file system without locks: nothing is lost without
            fcntl.flock(directory, fcntl.LOCK_EX)
        files.remove_abandoned(folder)
        paths = rows.files(folder) or []
        if len(paths) > 1 or (change and paths):
            read: list[str] = []
            done.joined = _write(folder, paths, read, done.left, change)
            with suppress(OSError):  # a file system that cannot put the name on the disk
                os.fsync(directory)
            for path in read:
                if path not in done.left:
                    Path(path).unlink(missing_ok=True)
                    done.removed += 1
    finally:
        os.close(directory)  # which frees the lock, as the end of a killed process does
    return done


def _write(
    folder: Path, paths: Sequence[str], read: list[str], left: dict[str, str], change: Change | None
) -> int:
    """Writes the rows of these files into one, each once; returns how many there are.

    Files that were read to their end go to `read`, those that have to stay to `left`.
    """
    written: set[str] = set()
    path = folder / f"{rows.JOINED}{os.urandom(8).hex()}.parquet"
    with atomic_write(path, sync=True) as partial:
        with pq.ParquetWriter(partial, STORED, **FORMAT) as writer:
            for table in _groups(paths, read, left):
                places = {}
                for place, run_id in enumerate(table["run_id"].to_pylist()):
                    if run_id not in written:
                        places[run_id] = place
                written.update(places)
                new = table.take(pa.array(places.values(), pa.int64()))
                writer.write_table(pack(change(unpack(new, SCHEMA.names))) if change else new)
        if not written:
            partial.unlink()
    return len(written)


def _groups(paths: Sequence[str], read: list[str], left: dict[str, str]) -> Iterator[pa.Table]:
    """The rows of these files as they are stored, some thousands at once."""
    waiting = [STORED.empty_table()]
    for path in paths:
        try:
            for group in rows.groups(path, STORED, fs.LocalFileSystem()):
                found = rows.valid(group, left).select(STORED.names)
                unpack(found, DETAILS)  # raises where they are none
                waiting.append(found)
                if sum(map(len, waiting)) >= GROUP_ROWS:
                    yield pa.concat_tables(waiting)
                    waiting = [STORED.empty_table()]
            read.append(path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, pa.ArrowException) as error:
            left[path] = rows.why_not(error)
    yield pa.concat_tables(waiting)
