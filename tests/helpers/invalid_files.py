"""Files of every kind among the runs of a study that are not runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records.parquet import FORMAT, SCHEMA
from modescope.bench.records.results import SCHEMA_VERSION
from tests.helpers.studies import record, save

BAD = "bad.parquet"


def _run(runs: Path) -> Path:
    """A valid run of the study."""
    return next(runs.glob("run-*.parquet"))


def _truncated(runs: Path) -> None:
    whole = _run(runs).read_bytes()
    (runs / BAD).write_bytes(whole[: len(whole) // 2])


def _cut_at_the_front(runs: Path) -> None:
    (runs / BAD).write_bytes(_run(runs).read_bytes()[1000:])


def _empty(runs: Path) -> None:
    (runs / BAD).touch()


def _text(runs: Path) -> None:
    (runs / BAD).write_text("latency: soon\n")


def _foreign(runs: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), runs / BAD)


def _foreign_with_our_names(runs: Path) -> None:
    names = {name: ["?"] for name in ("run_id", "case_id", "status", "schema_version")}
    pq.write_table(pa.table(names), runs / BAD)


def _of_version(version: int) -> Callable[[Path], None]:
    def write(runs: Path) -> None:
        one = record()
        save([replace(one, attempt=replace(one.attempt, schema_version=version, run_id="bad"))],
             runs.parent)  # fmt: skip

    return write


def _with(**columns: Any) -> Callable[[Path], None]:
    """A run with other values in some columns, of any type."""

    def write(runs: Path) -> None:
        ours = pq.read_table(_run(runs))
        for name, value in columns.items():
            ours = ours.set_column(ours.column_names.index(name), name, [[value]])
        pq.write_table(ours, runs / BAD)

    return write


def _of_rows(count: int) -> Callable[[Path], None]:
    def write(runs: Path) -> None:
        ours = pq.read_table(_run(runs))
        pq.write_table(pa.concat_tables([ours] * count) if count else ours.slice(0, 0), runs / BAD)

    return write


def _renamed_column(runs: Path) -> None:
    ours = pq.read_table(_run(runs))
    names = ["error_bound" if name == "error_limit" else name for name in ours.column_names]
    pq.write_table(ours.rename_columns(names), runs / BAD)


def _damaged_page(runs: Path) -> None:
    """One bit of the samples is flipped, as by a failing disk."""
    path = _run(runs)
    place = pq.read_metadata(path).row_group(0).column(
        [f.name for f in SCHEMA].index("latency_rounds_s")
    ).data_page_offset  # fmt: skip
    content = bytearray(path.read_bytes())
    content[place + 60] ^= 1
    (runs / BAD).write_bytes(content)


def _damaged_text(runs: Path) -> None:
    ours = pq.read_table(_run(runs))
    place = ours.column_names.index("reason")
    text = pa.array([b"\xff\xfe"], pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(ours.set_column(place, SCHEMA.field("reason"), text), runs / BAD, **FORMAT)


def _folder(runs: Path) -> None:
    (runs / BAD).mkdir()


def _pipe(runs: Path) -> None:
    os.mkfifo(runs / BAD)


def _link_to_nowhere(runs: Path) -> None:
    (runs / BAD).symlink_to("gone.parquet")


def _link_to_itself(runs: Path) -> None:
    (runs / BAD).symlink_to(BAD)


def _copy(runs: Path) -> None:
    (runs / BAD).write_bytes(_run(runs).read_bytes())


# kind -> function that makes the file, and the reason in the warning
SPOILED: dict[str, tuple[Callable[[Path], None], str]] = {
    "truncated": (_truncated, "is truncated"),
    "cut at the front": (_cut_at_the_front, "cannot be read as Parquet"),
    "empty": (_empty, "is empty"),
    "text": (_text, "cannot be read as Parquet"),
    "foreign": (_foreign, "is not a record of modescope"),
    "foreign with our names": (_foreign_with_our_names, "has schema version '?'"),
    "newer": (
        _of_version(SCHEMA_VERSION + 1),
        f"has schema version {SCHEMA_VERSION + 1} of a newer modescope",
    ),
    "older": (
        _of_version(0),
        "has schema version 0, which is no longer read",
    ),
    "no version": (_with(schema_version=None), "has schema version None"),
    "other types": (
        _with(latency_rounds_s="soon"), "has a latency_rounds_s of type string, not list",
    ),
    "no rows": (_of_rows(0), "has no rows"),
    "two rows": (_of_rows(2), "has 2 rows"),
    "a column with another name": (_renamed_column, "lacks error_limit and has unknown columns"),
    "no name": (_with(run_id=None), "has no run_id"),
    "no shape": (_with(shape="a batch of 4"), "has an invalid shape"),
    "sizes that are no numbers": (
        _with(shape='{"batch":"four"}'), "has an invalid shape",
    ),
    "options that are none": (_with(training='"lr"'), "has an invalid training"),
    "kernels that are none": (
        _with(heaviest_kernels='["addmm"]'), "has an invalid heaviest_kernels",
    ),
    "unpaired rounds": (_with(latency_rounds_s=[1e-3] * 39), "has unpaired rounds"),
    "a damaged page": (_damaged_page, "cannot be read as Parquet"),
    "damaged text": (_damaged_text, "is damaged"),
    "a folder": (_folder, "is a folder"),
    "a pipe": (_pipe, "is not a file"),
    "a link to nowhere": (_link_to_nowhere, "is not a file"),
    "a link to itself": (_link_to_itself, "is not a file"),
    "a copy": (_copy, "is a copy of run-"),
}  # fmt: skip


def spoil_every_way(runs: Path, kinds: Iterable[str] = SPOILED) -> dict[str, str]:
    """A file of each kind, named bad-00.parquet and so on, and the reason in its warning."""
    reasons = {}
    for number, kind in enumerate(kinds):
        spoil, reason = SPOILED[kind]
        spoil(runs)
        name = f"bad-{number:02d}.parquet"
        (runs / BAD).rename(runs / name)
        reasons[name] = reason
    return reasons
