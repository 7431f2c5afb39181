"""Merges small parts, which many compactions of a growing study leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from modescope.analysis.compact.part_file import (
    GROUP_ROWS,
    SORTED_BY,
    part,
    read_ids,
    sorted_places,
)
from modescope.analysis.load import parts
from modescope.bench.records import sources

SMALL = parts.MOST_ROWS // 2
"""A part of more runs is not merged."""

GROWTH = 2
"""A part is merged with smaller ones if it has at most so many times their runs: each run is then
written again a few times in all, however often its study is compacted."""


def run_ids(path: Path) -> set[str]:
    """The runs in a part. Raises what `load.parts.opened` raises."""
    with parts.opened(path) as file:
        return set(file.read(columns=["run_id"], use_threads=False)["run_id"].to_pylist())


def merge(folder: Path, is_alone: bool) -> int:
    """Merges small parts of `folder` that have one schema; returns how many there were.

    `is_alone`: no other compaction runs, so a part whose runs are all in others may be removed.
    """
    merged = 0
    for alike in _alike(folder):
        if len(chosen := list(filter(_is_whole, _worth_merging(alike)))) > 1:
            _merge(folder, chosen)
            merged += len(chosen)
    if is_alone:
        _remove_superfluous(folder)
    return merged


def _alike(folder: Path) -> list[list[tuple[int, Path]]]:
    """Readable small parts by their schema and footer, each with its number of runs."""
    groups: dict[object, list[tuple[int, Path]]] = {}
    for path in sources.parts(folder.parent):
        try:
            with parts.opened(path) as file:
                rows, schema = file.metadata.num_rows, file.schema_arrow
                key = (schema.remove_metadata().to_string(), *sorted(_footer(file).items()))
        except (OSError, ValueError, pa.ArrowException):
            continue
        if rows < SMALL:
            groups.setdefault(key, []).append((rows, path))
    return list(groups.values())


def _is_whole(path: Path) -> bool:
    """Whether every page of a part can be read; a damaged one stays as it is."""
    try:
        read_ids(path)
    except (OSError, ValueError, pa.ArrowException):
        return False
    return True


def _footer(file: pq.ParquetFile) -> dict[bytes, bytes]:
    return {k: v for k, v in (file.metadata.metadata or {}).items() if k.startswith(b"modescope.")}


def _worth_merging(alike: Sequence[tuple[int, Path]]) -> list[Path]:
    """The smallest parts, as long as the next is not much larger than those before it together."""
    chosen: list[Path] = []
    total = 0
    for rows, path in sorted(alike):
        if chosen and rows > GROWTH * total:
            break
        chosen.append(path)
        total += rows
    return chosen


def _merge(folder: Path, inputs: Sequence[Path]) -> None:
    """Publishes the runs of these parts in new ones, then removes the parts."""
    with parts.opened(inputs[0]) as file:
        schema, footer = file.schema_arrow.remove_metadata(), _footer(file)
    index = pd.concat([_keys(path, number) for number, path in enumerate(inputs)])
    index = index.iloc[sorted_places(index)].drop_duplicates("run_id")
    for start in range(0, len(index), parts.MOST_ROWS):
        of_part = index.iloc[start : start + parts.MOST_ROWS]
        readers = [_Rows(path) for path in inputs]
        with part(folder, schema, footer) as (_, add):
            for place in range(0, len(of_part), GROUP_ROWS):
                add(_gathered(readers, of_part.iloc[place : place + GROUP_ROWS], schema))
    for path in inputs:
        path.unlink(missing_ok=True)


def _keys(path: Path, number: int) -> pd.DataFrame:
    with parts.opened(path) as file:
        here = [name for name in SORTED_BY if name in file.schema_arrow.names]
        keys: pd.DataFrame = file.read(columns=here, use_threads=False).to_pandas()
    return keys.assign(_input=number, _row=np.arange(len(keys)))


def _gathered(readers: Sequence[_Rows], chosen: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Rows of several parts in the order of `chosen`."""
    places = np.arange(len(chosen))
    tables, order = [], []
    for number, reader in enumerate(readers):
        mine = (chosen["_input"] == number).to_numpy()
        if mine.any():
            tables.append(reader.take(chosen["_row"].to_numpy()[mine]))
            order.append(places[mine])
    whole = pa.concat_tables([table.replace_schema_metadata() for table in tables])
    gathered = whole.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
    return gathered.cast(schema)


class _Rows:
    """Rows of a part by their position. Keeps the row group that was read last."""

    def __init__(self, path: Path) -> None:
        self._path, self._kept = path, (-1, None)
        with parts.opened(path) as file:
            sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])

    def take(self, rows: np.ndarray) -> pa.Table:
        """These rows, in ascending order."""
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        taken = [
            self._group(int(group)).take(pa.array(rows[groups == group] - self._starts[group]))
            for group in np.unique(groups)
        ]
        return pa.concat_tables(taken)

    def _group(self, number: int) -> pa.Table:
        if self._kept[0] != number:
            with parts.opened(self._path) as file:
                self._kept = (number, file.read_row_group(number, use_threads=False))
        return self._kept[1]


def _remove_superfluous(folder: Path) -> None:
    """Removes parts whose runs are all in others that are whole; a killed merge leaves them."""
    known = {}
    for path in sources.parts(folder.parent):
        try:
            known[path] = run_ids(path)
        except (OSError, ValueError, pa.ArrowException):
            continue
    for path in sorted(known, key=lambda one: len(known[one])):
        others = {other: ids for other, ids in known.items() if other != path}
        if known[path] <= _union(others) and known[path] <= _union(
            {other: ids for other, ids in others.items() if _is_whole(other)}
        ):
            del known[path]
            path.unlink(missing_ok=True)


def _union(known: Mapping[Path, set[str]]) -> set[str]:
    return set().union(*known.values())
