"""Studies of any number of runs, written as parts: copies of the reference runs as other works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from modescope.analysis.compact.part_file import GROUP_ROWS, part
from modescope.analysis.load import cache, files, parts
from modescope.bench.records.results import SCHEMA_VERSION
from tests.helpers.paths import ROOT

REFERENCE = ROOT / "results" / "reference" / "intel-xeon-2-cores" / "runs"
RUNS = sum(1 for _ in REFERENCE.iterdir())
"""Runs that are copied."""


def study(folder: Path, runs: int, models: int = 50, replicates: int = 1) -> Path:
    """Writes a study of `runs` runs in parts, and returns its folder.

    Each copy of the reference runs is another model or another batch; a case has so many
    `replicates`.
    """
    whole = reference()
    copies = -(-runs // (whole.num_rows * replicates))
    rows = np.array([
        (copy, replicate, place)
        for copy in range(copies)
        for replicate in range(replicates)
        for place in range(whole.num_rows)
    ])[:runs]  # fmt: skip
    model = rows[:, 0] % models
    order = np.lexsort((rows[:, 1], rows[:, 2], rows[:, 0], model))
    footer = {
        b"modescope.schema_version": str(SCHEMA_VERSION).encode(),
        parts.READER: cache.reader().encode(),
    }
    (folder / "compact").mkdir(parents=True)
    for start in range(0, runs, parts.MOST_ROWS):
        chosen = order[start : start + parts.MOST_ROWS]
        with part(folder / "compact", whole.schema, footer) as (_, add):
            for place in range(0, len(chosen), GROUP_ROWS):
                add(_copied(whole, rows[chosen[place : place + GROUP_ROWS]], models))
    return folder


def reference() -> pa.Table:
    """The reference runs, with the statistics that a part has."""
    tables = [files.read(path) for path in sorted(REFERENCE.iterdir())]
    rows = pa.concat_tables([table for table in tables if not isinstance(table, str)])
    statistics = parts.summarised(rows).select(parts.STATISTICS.names)
    return pa.table(
        [*rows.columns, *statistics.columns], schema=pa.schema([*rows.schema, *parts.STATISTICS])
    ).combine_chunks()


def _copied(whole: pa.Table, rows: np.ndarray, models: int) -> pa.Table:
    """Rows (copy, replicate, place in `whole`) as runs and cases of their own."""
    copied = whole.take(pa.array(rows[:, 2]))
    changed = _changed(copied.select(["model", "shape", "mode", "dtype"]).to_pylist(), rows, models)
    for name, values in changed.items():
        at = copied.schema.get_field_index(name)
        field = copied.schema.field(at)
        copied = copied.set_column(at, field, pa.array(values, field.type))
    return copied


def _changed(
    stored: list[dict[str, str]], rows: np.ndarray, models: int
) -> dict[str, list[object]]:
    numbers = [tuple(map(int, row)) for row in rows]
    shapes = [
        {**json.loads(one["shape"]), "batch": 1 + copy // models}
        for one, (copy, _, _) in zip(stored, numbers, strict=True)
    ]
    return {
        "model": [
            f"{one['model']}-{copy % models}"
            for one, (copy, _, _) in zip(stored, numbers, strict=True)
        ],
        "shape": [json.dumps(shape, separators=(",", ":"), sort_keys=True) for shape in shapes],
        "batch": [shape["batch"] for shape in shapes],
        "replicate": [replicate for _, replicate, _ in numbers],
        "case_id": [f"{copy:010x}{place:06x}" for copy, _, place in numbers],
        "run_id": [
            f"20260301T{copy:08d}.{replicate:03d}-{place:06d}" for copy, replicate, place in numbers
        ],
        "started_at": [
            f"2026-{1 + copy // 86400 % 12:02d}-{1 + copy // 7200 % 28:02d}T"
            f"{copy // 3600 % 24:02d}:{copy // 60 % 60:02d}:{copy % 60:02d}."
            f"{replicate:03d}{place:03d}Z"
            for copy, replicate, place in numbers
        ],
    }


def loose_files(folder: Path) -> Iterator[Path]:
    """The files of single runs in a study."""
    yield from (folder / "runs").glob("*.parquet")
