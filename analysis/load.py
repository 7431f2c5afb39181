"""A folder of runs -> one table, one row per run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from bench.records import SCHEMA_VERSION, UsageError
from bench.store import SCHEMA

log = logging.getLogger(__name__)
_IDENTITY = {"schema_version", "run_id", "case_id", "status"}  # a file without them is not ours


def load(study_folder: str | Path) -> pd.DataFrame:
    """Every run of a study: the stored columns (results/README.md), in order of their start.

    Columns a file lacks are null. A file that cannot be read or is not a run of this version is
    left out, and a logged warning names it; dot-files, which are being written, are passed over.
    Raises UsageError where there is no such study.
    """
    runs = Path(study_folder) / "runs"
    if not runs.is_dir():
        raise UsageError(
            f"no study at {study_folder} (it has no folder runs/); name a study's folder, or "
            "measure one with `python run.py study=NAME`"
        )
    paths = sorted(path for path in runs.glob("*.parquet") if not path.name.startswith("."))
    tables = []
    for path in paths:
        answer = _read(path)
        if isinstance(answer, str):
            log.warning("left out %s: %s", path, answer)
        else:
            tables.append(answer)
    return _frame(tables)


def _read(path: Path) -> pa.Table | str:
    """The rows of one file in the current columns, or why it is left out."""
    try:
        table = pq.ParquetFile(path).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read as Parquet ({_first_line(error)})"
    if not set(table.column_names) >= _IDENTITY:
        return "is not a record of modescope"
    versions = set(table["schema_version"].to_pylist())
    if table.num_rows == 0:
        return "has no rows"
    if versions != {SCHEMA_VERSION}:
        found = ", ".join(sorted(str(version) for version in versions))
        return f"has schema version {found}; this is version {SCHEMA_VERSION}"
    if table.schema.equals(SCHEMA):
        return table
    try:
        return pa.table([_column(table, field) for field in SCHEMA], schema=SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        return f"has columns of other types ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name in table.column_names:
        return table[field.name].cast(field.type)
    return pa.nulls(table.num_rows, field.type)


def _frame(tables: Sequence[pa.Table]) -> pd.DataFrame:
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    frame: pd.DataFrame = whole.to_pandas()
    return frame.sort_values(["started_at", "run_id"], ignore_index=True)
