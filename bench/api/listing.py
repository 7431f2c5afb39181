"""What a comparison lists of one work: the rows that were measured, and why others were not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis.format import cells, phrases
from modescope.analysis.format.columns import MODE, NAMING, PEAK, SPEEDUP, VERDICT, Column, wanted
from modescope.analysis.format.phrases import Row

COLUMNS = (
    SPEEDUP,
    VERDICT,
    Column("latency [95 %]", cells.latency, key="latency_paired_s"),
    PEAK,
    Column("remarks", cells.remarks, optional=True),
)
"""Columns beside the mode's name and precision."""


@dataclass(frozen=True)
class Listing:
    """A table, and the cases without a result, each with its name and the reason."""

    title: str
    headers: tuple[str, ...]
    measured: tuple[tuple[str, ...], ...]
    others: tuple[tuple[str, str], ...]


def listing(rows: Sequence[Row]) -> Listing:
    """The rows of one SECTION."""
    measured = [row for row in rows if row["status"] == "ok"]
    several = len({row["dtype"] for row in measured}) > 1
    columns = [*(NAMING if several else (MODE,)), *wanted(COLUMNS, measured)]
    return Listing(
        title=_title(rows[0]),
        headers=tuple(column.title for column in columns),
        measured=tuple(tuple(column.cell(row) for column in columns) for row in measured),
        others=tuple(
            (phrases.variant(row), phrases.ended(row)) for row in rows if row["status"] != "ok"
        ),
    )


def _title(row: Row) -> str:
    """`Net, inference · Intel Xeon, AVX512, 1 thread · against eager fp32`."""
    place = phrases.place(row, letter=False)
    return f"{phrases.work(row)} · {place} · against {phrases.baseline(row)}"
