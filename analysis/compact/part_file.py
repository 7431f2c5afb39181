"""Writes a part, which gets its name once it is complete, on the disk, and read back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from modescope.analysis.compact.lock import sync
from modescope.analysis.load import parts
from modescope.bench.records.files import atomic_write

GROUP_ROWS = 2000
"""Rows in a row group: what a query for one model reads at least; 20 to 100 MB of samples."""

SORTED_BY = (
    *("model", "model_args", "model_inputs", "phase", "optimizer", "training", "device"),
    *("environment_id", "threads", "shape", "dtype", "mode", "case_id", "compile_cache"),
    *("replicate", "started_at", "run_id"),
)
"""Rows of one work lie together, so that reading it leaves out most row groups."""

Add = Callable[[pa.Table], None]


def sorted_places(rows: pd.DataFrame) -> list[int]:
    """The positions of rows in the order in which a part holds them."""
    there = [name for name in SORTED_BY if name in rows]
    plain = rows[there].reset_index(drop=True)
    return plain.sort_values(there, kind="stable").index.tolist()


@contextmanager
def part(folder: Path, schema: pa.Schema, footer: dict[bytes, bytes]) -> Iterator[tuple[Path, Add]]:
    """Yields the path of a new part and a function that adds rows in `schema` to it.

    The part is there when the block ends without an error and with rows. Raises OSError if it
    cannot be written, or reads as something else than was written.
    """
    path = folder / f"part-{os.urandom(8).hex()}.parquet"
    ids: list[str] = []
    with atomic_write(path, sync=True, overwrite=False) as partial:
        with pq.ParquetWriter(partial, schema, **_format(schema)) as writer:

            def add(rows: pa.Table) -> None:
                writer.write_table(rows, row_group_size=GROUP_ROWS)
                ids.extend(rows["run_id"].to_pylist())

            yield path, add
            writer.add_key_value_metadata(
                {key.decode(): text.decode() for key, text in footer.items()}
            )
        if ids:
            _verify(partial, ids)
        else:
            partial.unlink()
    sync(folder)


def _format(schema: pa.Schema) -> dict[str, Any]:
    lists = {field.name for field in schema if pa.types.is_list(field.type)}
    scalars = [name for name in schema.names if name not in lists]
    return {
        "compression": "zstd",
        "use_dictionary": scalars,
        "write_statistics": scalars,
        "write_page_checksum": True,
        "store_schema": False,
    }


def read_ids(path: Path) -> list[str]:
    """The runs of a part, of which every page is read. Raises what `load.parts.opened` raises."""
    with parts.opened(path) as file:
        return [
            run_id
            for group in range(file.num_row_groups)
            for run_id in file.read_row_group(group, use_threads=False)["run_id"].to_pylist()
        ]


def _verify(path: Path, ids: Iterable[str]) -> None:
    """Reads every page again, whose checksums are verified. Raises OSError."""
    try:
        read = read_ids(path)
    except (pa.ArrowException, ValueError) as error:
        raise OSError(f"{path} cannot be read back: {error}") from None
    if read != list(ids):
        raise OSError(f"{path} does not hold what was written")
