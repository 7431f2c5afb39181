"""Parts: files with many runs, which `analysis.compact` writes.

A part holds the rows of its files as they were written, so all have one schema, and beside them the
statistics of their samples (`run_stats`). These are used if they were computed by the code that
reads them; else they are computed anew, and cached.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from modescope.analysis.format import phrases
from modescope.analysis.load import cache, files, run_stats
from modescope.analysis.load.listing import RunFile
from modescope.analysis.load.migrations import migrated
from modescope.analysis.load.parallel import progress, spread
from modescope.analysis.load.remote import Folder, RemotePath, first_line
from modescope.bench.records import sources
from modescope.bench.records.parquet import SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION

MOST_ROWS = 50_000
"""Runs in a part, at most."""

READER = b"modescope.statistics"
"""Key of a footer: the code that computed the statistics, as `cache.reader` tells it."""

_WORTH_PROCESSES = 2000  # runs; statistics of fewer take less time than processes to start
_SIZE = ("_size", pa.int64())
_MTIME = ("_mtime_ns", pa.int64())

STATISTICS = pa.schema(
    [(name, column.type) for name, column in run_stats.encoded([]).items()]
)  # fmt: skip
SCALARS = pa.schema([field for field in SCHEMA if field.name not in run_stats.SAMPLES])
CACHED = pa.schema([*SCALARS, *STATISTICS])
"""Columns of a run with statistics in place of samples."""


@contextmanager
def opened(path: Folder, coded: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
    """A part, whose pages are verified when they are read; `coded` are read as dictionaries.

    Raises FileNotFoundError if it is gone, OSError, ArrowException or ValueError if it cannot be
    read as a part.
    """
    source = path.open() if isinstance(path, RemotePath) else str(path)
    with pq.ParquetFile(
        source, page_checksum_verification=True, pre_buffer=True, read_dictionary=[*coded]
    ) as file:
        if not set(file.schema_arrow.names) >= files.IDENTITY:
            raise ValueError("is not a part of a study")
        yield file


def why_not(error: Exception) -> str:
    """Why a part was left out, as a clause."""
    text = first_line(error)
    return (
        text
        if isinstance(error, ValueError) and text.startswith("is ")
        else (f"cannot be read ({text})")
    )


def with_statistics(path: Folder, listed: RunFile) -> pa.Table:
    """Every run of a part with statistics in place of its samples, in the columns CACHED.

    Raises what `opened` raises.
    """
    with opened(path) as file:
        if has_statistics(file):
            return stored(file, range(file.num_row_groups))
        groups, rows = range(file.num_row_groups), file.metadata.num_rows
    if (kept := _cached(path, listed)) is not None:
        return kept
    pieces = spread(partial(_computed, path), groups, rows >= _WORTH_PROCESSES)
    tables = []
    with progress(rows, "computing statistics") as bar, closing(pieces):
        for table in pieces:
            tables.append(table)
            bar.update(table.num_rows)
    whole = pa.concat_tables([CACHED.empty_table(), *tables])
    sizes = ((_SIZE, listed.size), (_MTIME, listed.mtime_ns))
    keyed = whole
    for key, value in sizes:
        keyed = keyed.append_column(pa.field(*key), pa.repeat(pa.scalar(value, key[1]), len(whole)))
    cache.store(path, keyed)
    return whole


def has_statistics(file: pq.ParquetFile) -> bool:
    """Whether a part holds statistics that this code computed, for rows of its schema version."""
    return _footer(file).get(READER) == cache.reader().encode() and _version(file) == SCHEMA_VERSION


def stored(file: pq.ParquetFile, groups: Sequence[int]) -> pa.Table:
    """The runs in these row groups of a part with statistics, in the columns CACHED."""
    here = set(file.schema_arrow.names)
    names = [name for name in CACHED.names if name in here]
    table = file.read_row_groups(list(groups), columns=names, use_threads=False)
    statistics = table.select(STATISTICS.names).cast(STATISTICS)
    rows = files.current(table.drop_columns(STATISTICS.names), SCALARS)
    return pa.table([*rows.columns, *statistics.columns], schema=CACHED)


def _computed(path: Folder, group: int) -> pa.Table:
    """The runs in one row group, with statistics computed from its samples."""
    with opened(path) as file:
        rows = _migrated(file.read_row_group(group, use_threads=False))
    return summarised(rows)


def summarised(rows: pa.Table) -> pa.Table:
    """Runs in the columns of SCHEMA with statistics in place of their samples."""
    statistics = list(map(run_stats.of_run, phrases.as_rows(rows.to_pandas())))
    columns: dict[str, Any] = {name: rows[name] for name in SCALARS.names}
    return pa.table(columns | run_stats.encoded(statistics), schema=CACHED)


def with_samples(path: Folder) -> pa.Table:
    """Every run of a part in the columns of SCHEMA. Raises what `opened` raises."""
    with opened(path) as file:
        return _migrated(file.read(use_threads=False))


@dataclass(frozen=True)
class Columns:
    """The key columns of a part's runs, and a function that reads the runs of a mask."""

    keys: pa.Table
    rows: Callable[[NDArray[np.bool_]], pa.Table]  # in the columns CACHED


def columns(path: Folder, listed: RunFile, names: Sequence[str], coded: Collection[str]) -> Columns:
    """A part by columns; `coded` are dictionaries. Raises what `opened` raises."""
    with opened(path, coded) as file:
        if has_statistics(file):
            here = set(file.schema_arrow.names)
            table = file.read(columns=[name for name in names if name in here], use_threads=False)
            return Columns(_keys(table, names, coded), partial(_rows, path))
    return of_table(with_statistics(path, listed), names, coded)


def of_table(table: pa.Table, names: Sequence[str], coded: Collection[str]) -> Columns:
    """A table in the columns CACHED as a part."""
    return Columns(_keys(table, names, coded), lambda mask: table.filter(pa.array(mask)))


def _keys(table: pa.Table, names: Sequence[str], coded: Collection[str]) -> pa.Table:
    found = {}
    for name in names:
        kind = CACHED.field(name).type
        there = name in table.column_names
        values = table[name] if there else pa.chunked_array([pa.nulls(len(table), kind)])
        if name in coded:
            kind = pa.dictionary(pa.int32(), kind)
            values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        found[name] = values.cast(kind)
    return pa.table(found)


def _rows(path: Folder, mask: NDArray[np.bool_]) -> pa.Table:
    """The runs of a part where `mask` is true, from those row groups that have any."""
    tables, start = [], 0
    with opened(path) as file:
        for group in range(file.num_row_groups):
            mine = mask[start : start + file.metadata.row_group(group).num_rows]
            start += len(mine)
            if mine.any():
                tables.append(stored(file, [group]).filter(pa.array(mine)))
    return pa.concat_tables(tables)


def holders(folder: Folder) -> dict[str, str]:
    """The name of the part that holds a run, for each run of a local study that is in one."""
    found: dict[str, str] = {}
    for path in sources.parts(folder) if isinstance(folder, Path) else ():
        with suppress(OSError, ValueError, pa.ArrowException), opened(path) as file:
            ids = file.read(columns=["run_id"], use_threads=False)["run_id"].to_pylist()
            found |= dict.fromkeys(ids, path.name)
    return found


def _migrated(table: pa.Table) -> pa.Table:
    """Rows of a part in the columns of SCHEMA. Of older schema versions each is migrated alone."""
    table = table.drop_columns([name for name in table.column_names if name in STATISTICS.names])
    versions = pc.unique(table["schema_version"]).to_pylist()
    if versions in ([], [SCHEMA_VERSION]):
        return files.current(table)
    rows = (table.slice(place, 1) for place in range(table.num_rows))
    each = [files.current(migrated(row, row["schema_version"][0].as_py())) for row in rows]
    return pa.concat_tables(each)


def _cached(path: Folder, listed: RunFile) -> pa.Table | None:
    """What was computed for this part before."""
    kept = cache.load(path)
    if kept is None or not len(kept):
        return None
    known = (kept[_SIZE[0]][0].as_py(), kept[_MTIME[0]][0].as_py())
    return kept.select(CACHED.names) if known == (listed.size, listed.mtime_ns) else None


def _footer(file: pq.ParquetFile) -> dict[bytes, bytes]:
    return file.metadata.metadata or {}


def _version(file: pq.ParquetFile) -> int | None:
    version = _footer(file).get(b"modescope.schema_version", b"")
    return int(version) if version.isdigit() else None
