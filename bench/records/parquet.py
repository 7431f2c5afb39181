"""The columns of a row, how a Parquet file stores them, and how a file of one row is written.

A file of 300 columns takes ten times as long to open as one of 70. So only columns that are
filtered on or printed are columns of the file (CORE). Two more columns hold all others: `details`,
a JSON object without nulls, and `samples`, a map from name to raw samples.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from modescope.bench.records.files import atomic_write
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.results import Record, columns_of
from modescope.bench.records.summary_columns import ESTIMATES, SUMMARY

_TYPES: dict[Any, pa.DataType] = {
    **dict.fromkeys((str, Status, Checked), pa.string()),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    tuple[float, ...]: pa.list_(pa.float64()),
    tuple[bool, ...]: pa.list_(pa.bool_()),
    tuple[str, ...]: pa.list_(pa.string()),
}


def schema_of(hints: Mapping[str, Any]) -> pa.Schema:
    """Returns a schema with these columns, in order; `hints`: the type of each one's values."""
    columns = []
    for name, hint in hints.items():
        required = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        columns.append((name, _TYPES[required[0] if isinstance(hint, UnionType) else hint]))
    return pa.schema(columns)


SCHEMA = pa.schema(
    [*schema_of({column.name: column.hint for column in columns_of(Record)}), *SUMMARY]
)
"""Every column of a row in memory."""

SAMPLES = tuple(
    name for name in SCHEMA.names
    if name.endswith("_rounds_s") or name in ("case_ran_first", "latency_calls_s")
)  # fmt: skip
"""Columns of raw samples, which `bench.summary` reads; a file stores them in `samples`."""

CORE = (
    *("schema_version", "run_id", "case_id", "study", "started_at", "budget", "replicate"),
    *("status", "reason", "model", "model_args", "shape", "batch", "seq", "phase", "dtype"),
    *("mode", "grad", "autocast", "compile_mode", "graph", "baseline_mode", "baseline_dtype"),
    *("device", "threads", "compile_cache", "environment_id", "device_name", "torch_version"),
    *("in_effect", "in_effect_note", "checked", "error", "baseline_error", "first_call_s"),
    *("graph_breaks", "recompiles", "graph_launches", "ops_dispatched", "kernels", "launches"),
    *("device_busy_s", "weights_bytes", "saved_activation_bytes", "step_peak_bytes"),
    *("setup_peak_bytes", "reserved_bytes", "graph_pool_bytes", "flops", "summary_version"),
    *("verdict", "mde", "rounds", "slow_rounds", "peak_bytes", "row_flags", *ESTIMATES["latency"]),
    *("latency_p95_s", "baseline_latency_s", "host_s", "device_s", "pipelined_s", "dispatch_s"),
    *ESTIMATES["speedup"],
)
"""Columns that a file stores as columns of its own."""

DETAILS = tuple(name for name in SCHEMA.names if name not in {*CORE, *SAMPLES})
"""Columns that a file stores in `details`."""

_DETAILS = frozenset(DETAILS)
_AT_ONCE = 2000  # rows whose details are parsed at once: 10 MB

STORED = pa.schema(
    [
        *(SCHEMA.field(name) for name in CORE),
        ("details", pa.string()),
        ("samples", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)
"""The columns of a file: CORE, `details` and `samples`."""

# For single numbers, a dictionary and statistics cost more time than all the rest of reading, and
# zstd alone makes joined files smaller than both. Arrow's copy of the schema says nothing that
# Parquet's does not, and takes a third of a file. Checksums detect damaged pages.
FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
    "store_schema": False,
}


def write(row: dict[str, Any], folder: Path) -> Path:
    """Writes `<folder>/<run_id>.parquet` with one row, atomically, and returns its path.

    Columns of SCHEMA that `row` lacks are null. Raises OSError if the folder cannot be written.
    """
    path = folder / f"{row['run_id']}.parquet"
    table = pa.Table.from_pylist([row], schema=SCHEMA)
    with atomic_write(path, sync=True) as partial:
        pq.write_table(pack(table), partial, **FORMAT)
    return path


def pack(table: pa.Table) -> pa.Table:
    """Returns the rows of `table`, which has the columns of SCHEMA, as files store them.

    The result has the columns of STORED: those of CORE, and `details` and `samples`, which each
    hold many columns.
    """
    texts = map(_drop_nulls, table.select(DETAILS).to_pylist())
    rounds = map(_drop_nulls, table.select(SAMPLES).to_pylist())
    beside = {
        "details": [json.dumps(row, separators=(",", ":")) for row in texts],
        "samples": [
            [(name, list(map(float, values))) for name, values in row.items()] for row in rounds
        ],
    }
    core = {name: table[name] for name in CORE}
    return pa.table(core | beside, schema=STORED)


def unpack(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns the given `columns` of stored rows, which `pack` made.

    `table` has columns of STORED, at least those that `stored_columns` names. Columns in CORE are
    taken as they are; all others are read from `details` and `samples`. Raises ValueError if
    `details` are no JSON objects, or a value in them has another type than its column.
    """
    details = _parsed(table, [name for name in columns if name in _DETAILS])
    samples = _samples(table) if not {*columns}.isdisjoint(SAMPLES) else []
    made = {}
    for name in columns:
        if name in table.column_names:
            made[name] = table[name]
        elif name in _DETAILS:
            made[name] = details[name]
        else:
            kind = SCHEMA.field(name).type
            values = [row.get(name) for row in samples]
            if kind == pa.list_(pa.bool_()):
                values = [value and list(map(bool, value)) for value in values]
            made[name] = pa.chunked_array([pa.array(values, kind)])
    return pa.table(made)


def stored_columns(columns: Sequence[str]) -> list[str]:
    """Returns the columns that have to be read from a file for `unpack` to make `columns`."""
    wanted = {*columns}
    packs = {"details": DETAILS, "samples": SAMPLES}
    needed = [name for name, inside in packs.items() if not wanted.isdisjoint(inside)]
    return [*(name for name in CORE if name in wanted), *needed]


def _drop_nulls(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _parsed(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Returns the given columns of `details`; Arrow says where a value has another type."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    found = [schema.empty_table()]
    for start in range(0, len(table) if columns else 0, _AT_ONCE):
        texts = pc.fill_null(table["details"].slice(start, _AT_ONCE), "{}").combine_chunks()
        (lines,) = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")
        source = pa.BufferReader(lines.as_buffer())
        block = pj.ReadOptions(use_threads=False, block_size=source.size() + 1)  # no row in two
        part = pj.read_json(source, block, parse)
        if len(part) != len(texts):
            raise ValueError("details are no JSON objects")
        found.append(part)
    return pa.concat_tables(found)


def _samples(table: pa.Table) -> list[dict[str, list[float]]]:
    return [dict(rounds or ()) for rounds in table["samples"].to_pylist()]
