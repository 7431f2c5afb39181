"""Reads one file of a study: its run in the current schema, or the reason to leave it out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.analysis.load import validate
from modescope.analysis.load.migrations import migrated
from modescope.analysis.load.remote import Folder, first_line
from modescope.bench.records.parquet import SCHEMA

IDENTITY = {"schema_version", "run_id", "case_id", "status"}  # every run file has these columns
_NAMES = frozenset(SCHEMA.names)  # a list that Arrow makes anew each time
_MAGIC = b"PAR1"  # at the start and the end of every Parquet file


def read(path: Folder) -> pa.Table | str:
    """The one row of a file in the columns of the schema, or the reason to leave it out."""
    try:
        return understood(parsed(path))
    except (pa.ArrowException, ValueError) as error:
        return first_line(error)


def understood(stored: pa.Table) -> pa.Table | str:
    """The row of a table that is one run in the columns of the schema, or why it is none.

    Raises ValueError, or an exception of Arrow, with the reason as a clause.
    """
    table = current(migrated(stored, _version(stored)))
    return validate.objection(table) or table


def parsed(path: Folder) -> pa.Table:
    """The table in a Parquet file as it was written; ValueError if there is none."""
    return _parsed(_content(path))


def _content(path: Folder) -> bytes:
    """The file's bytes; ValueError if it cannot be a complete Parquet file."""
    try:
        if isinstance(path, Path) and not path.is_file():  # reading a pipe would block
            raise ValueError("is a folder" if path.is_dir() else "is not a file")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be opened ({error.strerror or first_line(error)})") from None
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
        raise ValueError(f"cannot be read as Parquet ({first_line(error)})") from None


def _version(table: pa.Table) -> int:
    """The schema version of a table that is one run; ValueError for any other table."""
    names = table.column_names
    if not set(names) >= IDENTITY or len(set(names)) < len(names):
        raise ValueError("is not a record of modescope")
    if table.num_rows != 1:
        raise ValueError(f"has {table.num_rows or 'no'} rows; a run has one")
    version = table["schema_version"][0].as_py()
    if not isinstance(version, int):
        raise ValueError(f"has schema version {version!r}, which is not a number")
    return version


def current(table: pa.Table, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The columns of the schema, in its order; ValueError for another schema.

    Columns added since the rows were written are null, and columns that a later modescope added are
    ignored. Rows with both missing and unknown columns have another schema. `schema`: SCHEMA, or
    those of its columns that were read.
    """
    if table.schema.equals(schema):
        return table.replace_schema_metadata()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    missing = [name for name in schema.names if name not in columns]
    unknown = [name for name in columns if name not in _NAMES]
    if missing and unknown:
        raise ValueError(f"lacks {', '.join(missing)} and has unknown columns {', '.join(unknown)}")
    arrays = [
        _cast(columns[field.name], field)
        if field.name in columns
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except (pa.ArrowException, ValueError):
        raise ValueError(f"has a {field.name} of type {column.type}, not {field.type}") from None
