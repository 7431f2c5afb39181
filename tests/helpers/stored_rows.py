"""The rows of a file, as tests compare and change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records.parquet import FORMAT, SCHEMA, STORED, pack, unpack


def rows_in(file: Path) -> list[dict[str, Any]]:
    """Every row of a file with every column of SCHEMA."""
    return list(_whole(file).to_pylist())


def change(file: Path, **columns: Any) -> None:
    """Writes the file again, with one value in a column of all rows."""
    rows = [row | columns for row in rows_in(file)]
    pq.write_table(pack(pa.Table.from_pylist(rows, schema=SCHEMA)), file, **FORMAT)


def _whole(file: Path) -> pa.Table:
    table = pq.ParquetFile(file).read()
    assert table.schema.names == STORED.names
    return unpack(table, SCHEMA.names)
