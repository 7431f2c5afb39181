"""Reads one file of a study: its run in the current schema, or the reason to leave it out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.analysis.load import validate
from modescope.analysis.load.migrations import migrated
from modescope.bench.records.errors import UsageError
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.paths import runner

_IDENTITY = {"schema_version", "run_id", "case_id", "status"}  # every run file has these columns
_RESULTS = Path("results")  # run.py's default folder of studies
_MOST_NAMED = 10  # studies in a message
_MAGIC = b"PAR1"  # at the start and the end of every Parquet file


@dataclass(frozen=True)
class RunFile:
    """A file in a study's folder; equal records are assumed to have the same content.

    A change that keeps the size and the modification time goes unnoticed. Run files are written
    once and never changed.
    """

    name: str
    size: int
    mtime_ns: int


def run_files(study_folder: str | Path) -> list[RunFile]:
    """The run files of a study by name, except dot-files, which are being written.

    Includes unreadable files. Raises UsageError if there is no such study.
    """
    runs = Path(study_folder) / "runs"
    try:
        return sorted(_entries(runs), key=lambda one: one.name)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(_no_study(Path(study_folder))) from None
    except OSError as error:
        raise UsageError(f"{runs} cannot be read: {error.strerror}") from None


def _no_study(folder: Path) -> str:
    """The message that `folder` holds no study, naming studies nearby."""
    start = f"no study at {folder} (it has no folder runs/)"
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
        return (folder / "runs").is_dir()
    except OSError:
        return False


def _entries(runs: Path) -> Iterator[RunFile]:
    with os.scandir(runs) as entries:
        for entry in entries:
            if not entry.name.endswith(".parquet") or entry.name.startswith("."):
                continue
            try:
                stat = entry.stat()
                yield RunFile(entry.name, stat.st_size, stat.st_mtime_ns)
            except OSError:  # a broken link; reading it gives the reason
                yield RunFile(entry.name, -1, -1)


def read(path: Path) -> pa.Table | str:
    """The one row of a file in the columns of the schema, or the reason to leave it out."""
    try:
        table = _parsed(_content(path))
        table = _current(migrated(table, _version(table)))
    except (pa.ArrowException, ValueError) as error:
        return _first_line(error)
    return validate.objection(table) or table


def _content(path: Path) -> bytes:
    """The file's bytes; ValueError if it cannot be a complete Parquet file."""
    try:
        if not path.is_file():  # reading a pipe would block
            raise ValueError("is a folder" if path.is_dir() else "is not a file")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be opened ({error.strerror})") from None
    if not content:
        raise ValueError("is empty")
    if content.startswith(_MAGIC) and not content.endswith(_MAGIC):
        raise ValueError("is truncated")
    return content


def _parsed(content: bytes) -> pa.Table:
    """The table in a Parquet file, with page checksums verified."""
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        return file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"cannot be read as Parquet ({_first_line(error)})") from None


def _version(table: pa.Table) -> int:
    """The schema version of a table that is one run; ValueError for any other table."""
    names = table.column_names
    if not set(names) >= _IDENTITY or len(set(names)) < len(names):
        raise ValueError("is not a record of modescope")
    if table.num_rows != 1:
        raise ValueError(f"has {table.num_rows or 'no'} rows; a run has one")
    version = table["schema_version"][0].as_py()
    if not isinstance(version, int):
        raise ValueError(f"has schema version {version!r}, which is not a number")
    return version


def _current(table: pa.Table) -> pa.Table:
    """The columns of the schema, in its order; ValueError for another schema.

    Columns added since the file was written are null, and columns that a later modescope added are
    ignored. A file with both missing and unknown columns has another schema.
    """
    if table.schema.equals(SCHEMA):
        return table.replace_schema_metadata()
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    unknown = [name for name in table.column_names if name not in SCHEMA.names]
    if missing and unknown:
        raise ValueError(f"lacks {', '.join(missing)} and has unknown columns {', '.join(unknown)}")
    return pa.table([_column(table, field) for field in SCHEMA], schema=SCHEMA)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    try:
        return table[field.name].cast(field.type)
    except (pa.ArrowException, ValueError):
        kind = table.schema.field(field.name).type
        raise ValueError(f"has a {field.name} of type {kind}, not {field.type}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
