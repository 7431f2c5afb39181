"""Migrates a row of schema version 2 to version 3, whose clocks share rounds.

Version 2 read the clocks one after the other, and no pace. Each of their rounds therefore gets the
median latency of the run, and a pace of 1: the machine is taken as constant, as version 2 did. So
does the one profiled call that it stored. The baseline's clocks and the pace of the speedup's
rounds were not measured and stay null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from modescope.bench.records.parquet import SCHEMA
from modescope.bench.stats import estimates

_CLOCKS = ("host_rounds_s", "pipelined_rounds_s", "device_rounds_s", "dispatch_rounds_s")
_PARTS = ("forward_rounds_s", "backward_rounds_s", "optimizer_rounds_s", "scaler_rounds_s")
_CONSTANT_PACE = 1.0


def from_second(table: pa.Table) -> pa.Table:
    """The row with the columns that relate its clocks to each other; null where it has none."""
    clocks, parts = _longest(table, _CLOCKS), _longest(table, _PARTS)
    latency = estimates.median_interval(_values(table, "latency_rounds_s"))
    median_s = None if latency is None else latency.value
    profiled = "kernels_s" in table.column_names and table["kernels_s"].null_count == 0
    added = {
        "clocks_latency_rounds_s": _repeated(median_s, clocks),
        "clocks_pace_rounds_s": _repeated(_CONSTANT_PACE, clocks),
        "parts_latency_rounds_s": _repeated(median_s, parts),
        "profiled_pace_s": _CONSTANT_PACE if profiled else None,
        "profiled_kernels_rounds_s": table["kernels_s"].to_pylist() if profiled else None,
        "profiled_latency_rounds_s": _repeated(median_s, 1) if profiled else None,
    }
    for name, value in added.items():
        table = table.append_column(name, pa.array([value], SCHEMA.field(name).type))
    return table


def _longest(table: pa.Table, names: Sequence[str]) -> int:
    return max(len(_values(table, name) or ()) for name in names)


def _values(table: pa.Table, name: str) -> list[float] | None:
    """The values of a list column; None where it is null, missing or of another type."""
    if name not in table.column_names:
        return None
    try:
        values: list[float] | None = table[name].cast(SCHEMA.field(name).type)[0].as_py()
    except pa.ArrowException:  # `load.files` reports it
        return None
    return values


def _repeated(value: float | None, count: int) -> list[float] | None:
    return [value] * count if count and value is not None else None
