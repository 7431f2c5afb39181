"""Reads the rows of a Parquet file for comparison in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from modescope.bench.records.parquet import SCHEMA, STORED, unpack


def rows_in(file: Path) -> list[dict[str, Any]]:
    """Every row of a file with every column of SCHEMA."""
    table = pq.ParquetFile(file).read()
    assert table.schema.names == STORED.names
    return list(unpack(table, SCHEMA.names).to_pylist())
