"""The rows by work: the table, which a reader sorts and filters, and each row's command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modescope.analysis.causes import finding
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
from modescope.analysis.report.named_rows import Name, name
from modescope.analysis.report.render import Glyph, glyph
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


@dataclass(frozen=True)
class Run:
    """A row's command, its processes, their files, and its causes as sentences."""

    name: Name
    command: str
    ids: tuple[str, ...]  # run_id of each process
    files: tuple[tuple[str, str], ...]  # kind, path relative to the report
    causes: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """The runs of one work."""

    work: str
    place: str
    runs: tuple[Run, ...]


def runs(study: Study) -> dict[str, Any]:
    """The runs of each work, the kinds of their files, and how many rows are not listed."""
    groups = [_group(study, rows) for rows in study.listed_sections()]
    kinds = {kind for group in groups for run in group.runs for kind, _ in run.files}
    return {"groups": groups, "kinds": kinds, "unlisted": study.unlisted, "folder": study.folder}


def _group(study: Study, rows: Sequence[Row]) -> Group:
    runs_ = tuple(_run(study, row) for row in rows)
    return Group(phrases.work(rows[0]), study.place(rows[0]), runs_)


def _run(study: Study, row: Row) -> Run:
    ids = tuple(str(row["process_run_ids"]).split(";"))
    files = () if study.traces is None else tuple(_files(row, study.traces))
    return Run(name(study, row), row["command"], ids, files, _causes(study, row))


def _causes(study: Study, row: Row) -> tuple[str, ...]:
    found = study.causes.get(row["run_id"], ())
    return (*(one.text for one in found[:1]), *(finding.alone(one) for one in found[1:]))


def _files(row: Row, traces: Path) -> Iterator[tuple[str, str]]:
    """Those that are there: a study may be passed on without them."""
    for kind, file in (("trace", row["trace"]), ("memory snapshot", row["snapshot"])):
        if file and (traces / file).is_file():
            yield kind, f"../traces/{file}"
