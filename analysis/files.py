"""One file of a study -> its run, in the columns of today, or why it is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis import contents
from analysis.migrations import migrated
from bench.records import UsageError
from bench.store import SCHEMA

_IDENTITY = {"schema_version", "run_id", "case_id", "status"}  # a file without them is not ours
_RESULTS = Path("results")  # where run.py puts studies unless it is told otherwise
_MOST_NAMED = 10  # studies in a sentence
_MAGIC = b"PAR1"  # begins and ends every Parquet file


@dataclass(frozen=True)
class Found:
    """A file as it lies in the folder; two that are equal are taken to have the same content.

    Assumed, not known: a file changed in place that keeps its size and its time of change goes
    unnoticed. Run files are written once and never changed.
    """

    name: str
    size: int
    mtime_ns: int


def found(study_folder: str | Path) -> list[Found]:
    """The run files of a study by name; dot-files, which are being written, are passed over.

    What cannot be read is found too. Raises UsageError where there is no such study.
    """
    runs = Path(study_folder) / "runs"
    try:
        return sorted(_entries(runs), key=lambda one: one.name)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(_no_study(Path(study_folder))) from None
    except OSError as error:
        raise UsageError(f"{runs} cannot be read: {error.strerror}") from None


def _no_study(folder: Path) -> str:
    """That there is none in `folder`, and where there is one."""
    start = f"no study at {folder} (it has no folder runs/)"
    near = [one for one in (_RESULTS / folder, *folder.parents) if _is_study(one)]
    if near:
        return f"{start}; did you mean {near[0]}?"
    known = _studies(folder) or _studies(_RESULTS)
    if known:
        named = ", ".join(map(str, known))
        return f"{start}; there {'is' if len(known) == 1 else 'are'} {named}"
    return f"{start}; name a study's folder, or measure one with `python run.py study=NAME`"


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


def _entries(runs: Path) -> Iterator[Found]:
    with os.scandir(runs) as entries:
        for entry in entries:
            if not entry.name.endswith(".parquet") or entry.name.startswith("."):
                continue
            try:
                told = entry.stat()
            except OSError:  # a link to nowhere; reading it says why
                yield Found(entry.name, -1, -1)
            else:
                yield Found(entry.name, told.st_size, told.st_mtime_ns)


def read(path: Path) -> pa.Table | str:
    """The one row of a file in the columns of the schema, or why it is left out, in a clause."""
    try:
        table = _parsed(_content(path))
        table = _current(migrated(table, _version(table)))
    except (pa.ArrowException, ValueError) as error:
        return _first_line(error)
    return contents.objection(table) or table


def _content(path: Path) -> bytes:
    """The file's bytes; ValueError where it cannot be a whole Parquet file."""
    try:
        if not path.is_file():  # a pipe would be waited for
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
    """What a Parquet file holds, the checksums of its pages verified."""
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        return file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"cannot be read as Parquet ({_first_line(error)})") from None


def _version(table: pa.Table) -> int:
    """The schema version of a table that is one run; ValueError for any other."""
    names = table.column_names
    if not set(names) >= _IDENTITY or len(set(names)) < len(names):
        raise ValueError("is not a record of modescope")
    if table.num_rows != 1:
        raise ValueError(f"has {table.num_rows or 'no'} rows; a run has one")
    version = table["schema_version"][0].as_py()
    if not isinstance(version, int):
        raise ValueError(f"has schema version {version!r}, which is no number")
    return version


def _current(table: pa.Table) -> pa.Table:
    """The columns of the schema, in its order; ValueError where they are others.

    Columns may be missing, which were added since, and are null. Or there may be more, which a
    later modescope added, and are passed over. Both at once is another schema.
    """
    if table.schema.equals(SCHEMA):
        return table.replace_schema_metadata()
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    unknown = [name for name in table.column_names if name not in SCHEMA.names]
    if missing and unknown:
        raise ValueError(f"has no {', '.join(missing)}, but unknown columns: {', '.join(unknown)}")
    return pa.table([_column(table, field) for field in SCHEMA], schema=SCHEMA)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    try:
        return table[field.name].cast(field.type)
    except (pa.ArrowException, ValueError):
        found = table.schema.field(field.name).type
        raise ValueError(f"has a {field.name} of type {found}, not {field.type}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
