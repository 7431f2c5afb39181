"""The table of all rows, grouped by work, which a reader sorts and filters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modescope.analysis.format import cells, columns, disturbed, numbers, phrases
from modescope.analysis.format.columns import (
    AGAINST,
    BUDGET,
    CACHE,
    DTYPE,
    MODE,
    SPEEDUP,
    Column,
    wanted,
)
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.glyphs import Glyph, glyph
from modescope.analysis.report.study import Study


@dataclass(frozen=True)
class Cell:
    """What is shown, and the number by which the column is sorted; None: by the text."""

    column: Column
    text: str
    key: str | None


@dataclass(frozen=True)
class ListedRow:
    """A row of the table; one without a result has a `reason` in place of `measured` cells."""

    anchor: str | None
    glyph: Glyph
    dtype: str
    leading: tuple[Cell, ...]
    measured: tuple[Cell, ...]
    further: tuple[Cell, ...]
    reason: str | None
    counts: bool


@dataclass(frozen=True)
class ListedWork:
    """The rows of one work under their heading; `values`: one for each filter by work."""

    work: str
    place: str
    values: tuple[str, ...]
    rows: tuple[ListedRow, ...]


@dataclass(frozen=True)
class _Columns:
    leading: Sequence[Column]  # of every row
    measured: Sequence[Column]  # of rows that ended ok
    further: Sequence[Column]  # of the same; hidden until a reader asks for them
    filters: Sequence[Column]  # of works, as filters only: their headings show the same


OUTCOME = Column("verdict", cells.outcome)
FIRST = (MODE, OUTCOME, SPEEDUP, DTYPE)  # a phone has room for the first three
# columns that rows of one work may differ in -> prefix of the text if all rows are equal
_OPTIONAL = {AGAINST: "against ", BUDGET: "budget=", CACHE: "compile_cache="}


def listing(study: Study) -> dict[str, Any]:
    """The columns, the works with their rows, what all rows share, and how many are not listed."""
    rows = study.listed
    shown = _columns(study, rows)
    return {
        "columns": shown,
        "works": [_work(study, members, shown) for members in study.listed_sections()],
        "shared": _shared(rows),
        "legend": disturbed.legend(rows),
        "unlisted": study.unlisted,
        "folder": study.folder,
    }


def _columns(study: Study, rows: Sequence[Row]) -> _Columns:
    by_work = (
        Column("model", lambda row: row["model"]),
        Column("arguments", lambda row: "" if row["model_args"] == "{}" else row["model_args"]),
        Column("inputs", lambda row: row["model_inputs"] or ""),
        Column("shape", lambda row: phrases.sizes(row["shape"])),
        Column("phase", phrases.phase),
        Column("where", study.place),
    )
    return _Columns(
        leading=[*FIRST, *_varying(_OPTIONAL, rows)],
        measured=wanted((one for one in columns.REPORTED if one != SPEEDUP), rows),
        further=wanted(columns.FURTHER, rows),
        filters=_varying(by_work, rows),
    )


def _varying(candidates: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    return [column for column in candidates if len({column.cell(row) for row in rows}) > 1]


def _shared(rows: Sequence[Row]) -> str:
    """`against eager fp32, budget=standard, compile_cache=cold`: what is equal in all rows."""
    texts = {column: {column.cell(row) for row in rows} for column in _OPTIONAL}
    same = {column: min(values) for column, values in texts.items() if len(values) == 1}
    return ", ".join(
        text if text == "no baseline" else _OPTIONAL[column] + text for column, text in same.items()
    )


def _work(study: Study, rows: Sequence[Row], shown: _Columns) -> ListedWork:
    return ListedWork(
        work=phrases.work(rows[0]),
        place=study.place(rows[0]),
        values=tuple(column.cell(rows[0]) for column in shown.filters),
        rows=tuple(_row(study, row, shown) for row in rows),
    )


def _row(study: Study, row: Row, shown: _Columns) -> ListedRow:
    ok = row["status"] == "ok"
    return ListedRow(
        anchor=study.anchor(row),
        glyph=glyph(row),
        dtype=row["dtype"],
        leading=_cells(shown.leading, row),
        measured=_cells(shown.measured, row) if ok else (),
        further=_cells(shown.further, row) if ok else (),
        reason=None if ok else phrases.reason(row),
        counts=phrases.why_left_out(row) is None,
    )


def _cells(shown: Sequence[Column], row: Row) -> tuple[Cell, ...]:
    return tuple(Cell(column, column.cell(row), _key(column, row)) for column in shown)


def _key(column: Column, row: Row) -> str | None:
    """A number as a browser reads it, also infinity; None if the cell shows no number."""
    value = None if column.key is None else phrases.that_counts(row, column.key)
    if value is None or column.cell(row) == numbers.UNKNOWN:
        return None
    return "1e308" if math.isinf(value) else f"{value:.7g}"
