"""Reads and joins the files in the folder of a study's rows, which hold one row or many.

A row is written to a file of its own. `join` writes the rows of all files into one file, which is
read a hundred times as fast. It removes a file only once the file's rows are in another one that is
complete and on the disk. So no row is lost if the process is killed, or if another `join` or a
sweep runs at the same time. At worst a row is in two files: rows with the same run_id count once,
and the next `join` removes the copy. The name of a file that is still being written begins with a
dot.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from modescope.bench.records.files import atomic_write, remove_abandoned
from modescope.bench.records.parquet import (
    DETAILS,
    FORMAT,
    SCHEMA,
    STORED,
    pack,
    stored_columns,
    unpack,
)
from modescope.bench.records.results import SCHEMA_VERSION

ROWS = "rows"
"""The name of a study's folder with its rows."""

CONFIRMATIONS = "confirmations"
"""The name of a study's folder with rows that confirm others (`bench.sweep.sweep.confirm`). They
are in no table: the figures of a row come from its own process."""

JOINED = "part-"
"""The beginning of the name of a file with many rows."""

GROUP_ROWS = 2000  # in a row group of a joined file: 20 to 100 MB of samples

TableChange = Callable[[pa.Table], pa.Table]
"""A function that returns the given rows (with the columns of SCHEMA) with some values changed."""

_ATTEMPTS = 10  # at reading while a compaction moves rows; the second nearly always succeeds
_IDENTITY = ("schema_version", "run_id", "case_id", "status", "started_at")  # never null
_AFTER_PATH = "': "  # in Arrow's messages


@dataclass(frozen=True)
class Read:
    """The rows of a folder, and the files that were left out."""

    table: pa.Table
    left_out: dict[str, str]  # path of a file that was not read -> why


def read(
    folder: str | Path,
    columns: Sequence[str] = SCHEMA.names,
    system: fs.FileSystem | None = None,
) -> Read | None:
    """Returns the rows of `folder`; None if there is no such folder.

    A row that is in two files is returned once. `columns` must include run_id and schema_version.
    `system`: the file system; None: the local one. Raises OSError if the folder cannot be listed.
    """
    system = system or fs.LocalFileSystem()
    for _ in range(_ATTEMPTS):
        paths = files_in(folder, system)
        if paths is None:
            return None
        left_out: dict[str, str] = {}
        with suppress(FileNotFoundError):  # a compaction has joined it since
            found = _tables(paths, columns, system, left_out)
            return Read(_drop_copies(found), left_out)
    raise OSError(f"{folder} changes all the time")


def files_in(folder: str | Path, system: fs.FileSystem | None = None) -> list[str] | None:
    """Returns the sorted paths of the Parquet files in `folder`, without those being written.

    None if there is no folder. `system`: the file system; None: the local one. Raises OSError if
    the folder cannot be listed.
    """
    system = system or fs.LocalFileSystem()
    try:
        found = system.get_file_info(fs.FileSelector(str(folder)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    names = {entry.path: PurePosixPath(entry.path).name for entry in found if entry.is_file}
    return sorted(
        path for path, name in names.items()
        if name.endswith(".parquet") and not name.startswith(".")
    )  # fmt: skip


def _tables(
    paths: Sequence[str], columns: Sequence[str], system: fs.FileSystem, left_out: dict[str, str]
) -> pa.Table:
    """Returns the rows of the files `paths`, with `columns`.

    A file that cannot be read is added to `left_out`, with the reason. Raises FileNotFoundError for
    a file that is gone.
    """
    schema = pa.schema([STORED.field(name) for name in stored_columns(columns)])
    found = [schema.empty_table()]
    for path in paths:
        try:
            found += [*_groups(path, schema, system, left_out)]
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            left_out[path] = _why_not(error)
    try:
        return unpack(pa.concat_tables(found), columns)
    except (ValueError, pa.ArrowException) as error:  # some file's `details` is not JSON
        if len(paths) > 1:
            return pa.concat_tables([_tables([path], columns, system, left_out) for path in paths])
        left_out[paths[0]] = _why_not(error)
        return _tables([], columns, system, left_out)


def _groups(
    path: str, schema: pa.Schema, system: fs.FileSystem, left_out: dict[str, str]
) -> Iterator[pa.Table]:
    """Yields the valid rows of each row group of the file `path`, with the columns of `schema`.

    Columns that the file lacks are null. The file is added to `left_out` if it has other rows.
    Raises OSError or ArrowException if the file cannot be read, or has columns of other types.
    """
    with pq.ParquetFile(path, filesystem=system, page_checksum_verification=True) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, schema.names, use_threads=False)
            if table.schema != schema:  # of another version, or not ours
                columns = {
                    field.name: table[field.name].cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(len(table), field.type)
                    for field in schema
                }
                table = pa.table(columns, schema=schema)
            yield _valid(table, path, left_out)


def _why_not(error: Exception) -> str:
    return f"cannot be read ({str(error).partition(chr(10))[0].rpartition(_AFTER_PATH)[2]})"


def _valid(table: pa.Table, path: str, left_out: dict[str, str]) -> pa.Table:
    """Returns the rows of `table` that have this schema version and all of _IDENTITY.

    If there are other rows, their file `path` is added to `left_out`, with the reason.
    """
    known = [name for name in _IDENTITY if name in table.column_names]
    good = pc.fill_null(pc.equal(table["schema_version"], SCHEMA_VERSION), False)
    for name in known:
        good = pc.and_(good, pc.is_valid(table[name]))
    if pc.all(good).as_py() is not False:
        return table
    version = table.filter(pc.invert(good))["schema_version"][0].as_py()
    left_out[path] = (
        "is not a row of modescope"
        if version in (None, SCHEMA_VERSION)
        else f"has schema version {version}, and this modescope reads {SCHEMA_VERSION}"
    )
    return table.filter(good)


def _drop_copies(table: pa.Table) -> pa.Table:
    """Returns `table` with only the first row of each run_id."""
    if pc.count_distinct(table["run_id"]).as_py() == len(table):
        return table
    places = pa.table({"run_id": table["run_id"], "at": pa.array(range(len(table)), pa.int64())})
    first = places.group_by("run_id", use_threads=False).aggregate([("at", "min")])
    return table.take(first["at_min"])


@dataclass(frozen=True)
class Joined:
    """What one call of `join` did."""

    rows: int  # that were written into a joined file
    removed: int  # files whose rows are in it now
    left: dict[str, str]  # path of a file that stays -> why


def join(folder: Path, change: TableChange | None = None) -> Joined:
    """Joins all files of a folder into one.

    `change` is applied to all rows; None: they stay as they are, and so does a single file. Waits
    until another `join` of the folder has ended. Raises OSError if writing fails.
    """
    left: dict[str, str] = {}
    directory = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a network file system without locks: nothing is lost without
            fcntl.flock(directory, fcntl.LOCK_EX)
        remove_abandoned(folder)
        paths = files_in(folder) or []
        if not paths or (len(paths) == 1 and change is None):
            return Joined(0, 0, left)
        count = _write(folder, paths, left, change)
        with suppress(OSError):  # a file system that cannot put the name on the disk
            os.fsync(directory)
        for path in paths:
            if path not in left:
                Path(path).unlink(missing_ok=True)
        return Joined(count, len(paths) - len(left), left)
    finally:
        os.close(directory)  # which frees the lock, as the end of a killed process does


def _write(
    folder: Path, paths: Sequence[str], left: dict[str, str], change: TableChange | None
) -> int:
    """Writes the rows of the files `paths` into one new file; returns the number of rows.

    `change`, if any, is applied to them. Copies of a row are written once. Files that have to stay
    are added to `left`, with the reason.
    """
    written: set[str] = set()
    path = folder / f"{JOINED}{os.urandom(8).hex()}.parquet"
    with atomic_write(path, sync=True) as partial:
        with pq.ParquetWriter(partial, STORED, **FORMAT) as writer:
            for table in _batches(paths, left):
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


def _batches(paths: Sequence[str], left: dict[str, str]) -> Iterator[pa.Table]:
    """Yields the rows of these files as stored, about GROUP_ROWS at once."""
    waiting = [STORED.empty_table()]
    for path in paths:
        try:
            for group in _groups(path, STORED, fs.LocalFileSystem(), left):
                unpack(group, DETAILS)  # raises if its details are none
                waiting.append(group)
                if sum(map(len, waiting)) >= GROUP_ROWS:
                    yield pa.concat_tables(waiting)
                    waiting = [STORED.empty_table()]
        except (OSError, ValueError, pa.ArrowException) as error:
            left[path] = _why_not(error)
    yield pa.concat_tables(waiting)
