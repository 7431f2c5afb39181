"""Writes a record as one Parquet file, atomically."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records.files import atomic_write
from modescope.bench.records.ids import canonical_json
from modescope.bench.records.results import PARTS, SCHEMA_VERSION, Record, row
from modescope.bench.records.summary_columns import SUMMARY

_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[float, ...]: pa.list_(pa.float64()),
    tuple[bool, ...]: pa.list_(pa.bool_()),
    tuple[str, ...]: pa.list_(pa.string()),
}


def _without_none(hint: Any) -> Any:
    """`X` for `X | None`, anything else unchanged."""
    if isinstance(hint, types.UnionType):
        (hint,) = (member for member in typing.get_args(hint) if member is not type(None))
    return hint


def schema_of(*parts: type) -> pa.Schema:
    """Columns for the fields of frozen records, in order; types follow the annotations."""
    columns = []
    for part in parts:
        hints = typing.get_type_hints(part)
        columns += [pa.field(f.name, _TYPES[_without_none(hints[f.name])]) for f in fields(part)]
    return pa.schema(columns)


SCHEMA = pa.schema([*schema_of(*PARTS), *SUMMARY])

SAMPLES = frozenset(
    name for name in SCHEMA.names
    if name.endswith("_rounds_s") or name in ("case_ran_first", "latency_calls_s")
)  # fmt: skip
"""Columns of raw samples, from which `bench.summary` follows."""

# Only samples are compressed: for single numbers, a dictionary, statistics and a codec cost more
# time than all the rest of reading, and thousands of files are read at once. Arrow's copy of the
# schema says nothing that Parquet's does not, and takes a third of a file. Checksums detect damaged
# pages.
FORMAT: dict[str, Any] = {
    "compression": {
        f"{field.name}.list.element" if is_list else field.name: "zstd" if is_list else "none"
        for field in SCHEMA
        for is_list in (pa.types.is_list(field.type),)
    },
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}


def write(record: Record, folder: Path, summary: Mapping[str, Any] | None = None) -> Path:
    """Writes `<folder>/<run_id>.parquet` with one row; the name appears once the file is complete.

    `summary`: the columns `SUMMARY`, null without. The footer repeats the environment as JSON, for
    readers who look at a single file. Raises FileExistsError rather than overwrite, OSError when
    the folder cannot be written.
    """
    path = folder / f"{record.attempt.run_id}.parquet"
    footer = {
        "modescope.schema_version": str(SCHEMA_VERSION),
        "modescope.environment": canonical_json(asdict(record.environment)),
    }
    table = pa.Table.from_pylist([row(record) | dict(summary or {})], schema=SCHEMA)
    with (
        atomic_write(path, sync=True, overwrite=False) as partial,
        partial.open("wb") as file,
        pq.ParquetWriter(file, SCHEMA, **FORMAT) as writer,
    ):
        writer.write_table(table)
        writer.add_key_value_metadata(footer)
    return path
