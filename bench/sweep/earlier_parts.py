"""The rows of a study's parts that a sweep may reuse, read by columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from modescope.bench.records.results import SCHEMA_VERSION

BLOCK = "versus_block"


@dataclass(frozen=True)
class PartRows:
    """Rows of one part, which become Python objects case by case."""

    rows: pa.Table
    places: dict[str, list[int]] = field(default_factory=dict)  # case_id -> rows
    outdated: frozenset[str] = frozenset()  # run_ids of rows of an older schema
    last_block: int | None = None  # largest number of a block of versus, of any row

    def of_case(self, case_id: str) -> list[dict[str, Any]]:
        """The rows of a case."""
        places = self.places.get(case_id)
        rows: list[dict[str, Any]] = self.rows.take(places).to_pylist() if places else []
        return rows


NO_ROWS = PartRows(pa.table({}))


def read(
    path: Path, columns: Sequence[str], added: Collection[str], cases: Collection[str] | None
) -> PartRows:
    """The rows of these `cases` (None: of all) in a part, of the current schema.

    A part that lacks one of `columns`, except those `added` later, has none. An unreadable part has
    none either: its runs are measured again. Raises FileNotFoundError if the part is gone.
    """
    try:
        with pq.ParquetFile(path) as file:
            here = set(file.schema_arrow.names)
            if not {"schema_version", "case_id", "run_id"} <= here:
                return NO_ROWS
            versions = file.read(columns=["schema_version"])["schema_version"]
            if pc.any(pc.less(versions, SCHEMA_VERSION)).as_py():  # a part has one version
                return PartRows(pa.table({}), outdated=frozenset(_column(file, "run_id")))
            if not here >= set(columns) - {*added}:
                return NO_ROWS
            return _read(file, [name for name in columns if name in here], cases)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError):
        return NO_ROWS


def _read(file: pq.ParquetFile, columns: Sequence[str], cases: Collection[str] | None) -> PartRows:
    block = pc.max(file.read(columns=[BLOCK])[BLOCK]).as_py() if BLOCK in columns else None
    wanted = None if cases is None else pa.array([*cases], pa.string())
    tables = []
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["case_id"])["case_id"]
        is_wanted = None if wanted is None else pc.is_in(ids, wanted)
        if is_wanted is None or pc.any(is_wanted).as_py():
            rows = file.read_row_group(group, columns=[*columns])
            tables.append(rows if is_wanted is None else rows.filter(is_wanted))
    if not tables:
        return PartRows(pa.table({}), last_block=block)
    whole = pa.concat_tables(tables)
    places: dict[str, list[int]] = {}
    for place, case_id in enumerate(whole["case_id"].to_pylist()):
        places.setdefault(case_id, []).append(place)
    return PartRows(whole, places, last_block=block)


def _column(file: pq.ParquetFile, name: str) -> list[Any]:
    values: list[Any] = file.read(columns=[name])[name].to_pylist()
    return values
