"""Makes invalid files of every kind in a study's folder of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records import parquet
from modescope.bench.records.results import SCHEMA_VERSION
from tests.helpers.studies import record

BAD = "bad.parquet"


def _run(runs: Path) -> Path:
    """The file of a valid run: the largest, which has samples."""
    return max(runs.glob("run-*.parquet"), key=lambda path: path.stat().st_size)


def _truncated(runs: Path) -> None:
    whole = _run(runs).read_bytes()
    (runs / BAD).write_bytes(whole[: len(whole) // 2])


def _empty(runs: Path) -> None:
    (runs / BAD).touch()


def _foreign(runs: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), runs / BAD)


def _newer(runs: Path) -> None:
    one = record()
    other = replace(one.attempt, schema_version=SCHEMA_VERSION + 1, run_id="bad")
    parquet.write(replace(one, attempt=other), runs)


def _with(**columns: Any) -> Callable[[Path], None]:
    """A function that writes a run with these values in some columns, whatever their types."""

    def write(runs: Path) -> None:
        ours = pq.read_table(_run(runs))
        for name, value in columns.items():
            ours = ours.set_column(ours.column_names.index(name), name, [[value]])
        pq.write_table(ours, runs / BAD)

    return write


def _damaged_page(runs: Path) -> None:
    """Writes a run with one flipped bit in its samples, as a failing disk may leave it."""
    path = _run(runs)
    columns = pq.read_metadata(path).row_group(0)
    place = columns.column(columns.num_columns - 1).data_page_offset
    content = bytearray(path.read_bytes())
    content[place + 60] ^= 1
    (runs / BAD).write_bytes(content)


# kind -> function that makes the file, and the reason in the warning
SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncated, "cannot be read"),
    "empty": (_empty, "file size is 0 bytes"),
    "foreign": (_foreign, "is not a row of modescope"),
    "newer": (_newer, f"has schema version {SCHEMA_VERSION + 1}"),
    "other types": (_with(kernels="soon"), "cannot be read (Failed to parse"),
    "no details": (_with(details="none"), "cannot be read (Expecting value"),
    "no name": (_with(run_id=None), "is not a row of modescope"),
    "a damaged page": (_damaged_page, "cannot be read"),
}


def spoil_every_way(runs: Path) -> dict[str, str]:
    """Writes an invalid file of each kind; returns its name -> the reason that a warning gives."""
    reasons = {}
    for number, (spoil, reason) in enumerate(SPOILED.values()):
        spoil(runs)
        name = f"bad-{number:02d}.parquet"
        (runs / BAD).rename(runs / name)
        reasons[name] = reason
    return reasons
