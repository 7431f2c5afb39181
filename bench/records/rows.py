"""Reads the rows of a study from one folder, which has files with one row and files with many.

A row may be in two files, as after a killed compaction; by its run_id it counts once. The name of a
file that is still being written begins with a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from modescope.bench.records.parquet import SCHEMA, STORED, stored_columns, unpack
from modescope.bench.records.results import SCHEMA_VERSION

ROWS = "rows"
"""Name of the folder in a study that has its rows."""

CONFIRMATIONS = "confirmations"
"""Name of the folder in a study with rows that confirm others (`bench.sweep.sweep.confirm`). They
are in no table: the figures of a row are those of its own process."""

JOINED = "part-"
"""How the name of a file with many rows begins."""

FILE = "_file"
"""Column with the path of a row's file."""

_ATTEMPTS = 10  # at reading while a compaction moves rows; the second nearly always succeeds
_IDENTITY = ("schema_version", "run_id", "case_id", "status", "started_at")  # never null
_AFTER_PATH = "': "  # in Arrow's messages


@dataclass(frozen=True)
class Read:
    """The rows of a folder."""

    table: pa.Table  # with the column FILE
    left_out: dict[str, str]  # path of a file that was not read -> why


def read(
    folder: str | Path,
    columns: Sequence[str] = SCHEMA.names,
    change: Callable[[pa.Table, dict[str, str]], pa.Table] = lambda table, left_out: table,
    system: fs.FileSystem | None = None,
) -> Read | None:
    """The rows of `folder`, each once; None if there is no such folder.

    `columns` must include run_id and schema_version. `change` is applied to the table, in which
    rows may still be there twice; it also gets `left_out`, and may add to it. Raises OSError if the
    folder cannot be listed.
    """
    system = system or fs.LocalFileSystem()
    for _ in range(_ATTEMPTS):
        paths = files(folder, system)
        if paths is None:
            return None
        left_out: dict[str, str] = {}
        with suppress(FileNotFoundError):  # a compaction has joined it since
            found = change(tables(paths, columns, system, left_out), left_out)
            return Read(_drop_copies(found), left_out)
    raise OSError(f"{folder} changes all the time")


def files(folder: str | Path, system: fs.FileSystem | None = None) -> list[str] | None:
    """The sorted paths of a folder's complete Parquet files; None if there is no such folder.

    Raises OSError if the folder cannot be listed.
    """
    system = system or fs.LocalFileSystem()
    try:
        found = system.get_file_info(fs.FileSelector(str(folder)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    names = {one.path: PurePosixPath(one.path).name for one in found if one.is_file}
    return sorted(
        path for path, name in names.items()
        if name.endswith(".parquet") and not name.startswith(".")
    )  # fmt: skip


def tables(
    paths: Sequence[str], columns: Sequence[str], system: fs.FileSystem, left_out: dict[str, str]
) -> pa.Table:
    """The rows of the files `paths`, with `columns` and FILE.

    A file that cannot be read is added to `left_out`, with the reason. Raises FileNotFoundError for
    one that is gone.
    """
    schema = pa.schema([STORED.field(name) for name in stored_columns(columns)])
    found = [schema.append(pa.field(FILE, pa.string())).empty_table()]
    for path in paths:
        try:
            found += [*groups(path, schema, system)]
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            left_out[path] = why_not(error)
    try:
        return unpack(valid(pa.concat_tables(found), left_out), [*columns, FILE])
    except (ValueError, pa.ArrowException) as error:
        if len(paths) > 1:
            return pa.concat_tables([tables([one], columns, system, left_out) for one in paths])
        left_out[paths[0]] = why_not(error)
        return tables([], columns, system, left_out)


def groups(path: str, schema: pa.Schema, system: fs.FileSystem) -> Iterator[pa.Table]:
    """Each row group of the file `path`, with the columns of `schema` (null where absent) and FILE.

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
            yield table.append_column(FILE, pa.array([path] * len(table), pa.string()))


def why_not(error: Exception) -> str:
    """Why a file is left out: `cannot be read (Parquet file size is 0 bytes)`."""
    return f"cannot be read ({str(error).partition(chr(10))[0].rpartition(_AFTER_PATH)[2]})"


def valid(table: pa.Table, left_out: dict[str, str]) -> pa.Table:
    """The rows that have this schema version and an identity.

    Each file with other rows is added to `left_out`, with the reason.
    """
    known = [name for name in _IDENTITY if name in table.column_names]
    good = pc.fill_null(pc.equal(table["schema_version"], SCHEMA_VERSION), False)
    for name in known:
        good = pc.and_(good, pc.is_valid(table[name]))
    if pc.all(good).as_py() is not False:
        return table
    for row in table.filter(pc.invert(good)).select([*known, FILE]).to_pylist():
        version = row["schema_version"]
        left_out[row[FILE]] = (
            "is not a row of modescope"
            if version in (None, SCHEMA_VERSION)
            else f"has schema version {version}, and this modescope reads {SCHEMA_VERSION}"
        )
    return table.filter(good)


def _drop_copies(table: pa.Table) -> pa.Table:
    """`table` with only the first row of each run_id."""
    if pc.count_distinct(table["run_id"]).as_py() == len(table):
        return table
    places = pa.table({"run_id": table["run_id"], "at": pa.array(range(len(table)), pa.int64())})
    first = places.group_by("run_id", use_threads=False).aggregate([("at", "min")])
    return table.take(first["at_min"])
