"""The table of all rows, which a reader sorts and filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis import numbers, words
from analysis.columns import (
    AGAINST,
    BUDGET,
    CACHE,
    FURTHER,
    NAMING,
    REPORTED,
    Column,
    wanted,
)
from analysis.page.glyphs import Glyph, glyph
from analysis.page.study import Study
from analysis.words import Row


@dataclass(frozen=True)
class Cell:
    """What is shown, and what it is sorted by where that is a number."""

    text: str
    is_number: bool
    key: str | None


@dataclass(frozen=True)
class Line:
    """A row; `reason` stands in place of the cells where there are none."""

    anchor: str | None
    glyph: Glyph
    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    further: tuple[Cell, ...]
    reason: str | None
    counts: bool


def listing(study: Study) -> dict[str, Any]:
    """Titles, lines, what all rows have in common, and how many rows are not listed.

    `further` are the columns for those who ask for them.
    """
    rows = study.listed
    naming, shared = _naming(study, rows)
    reported, further = wanted(REPORTED, rows), wanted(FURTHER, rows)
    return {
        "naming": [column.title for column in naming],
        "reported": reported,
        "further": further,
        "lines": [_line(study, row, naming, reported, further) for row in rows],
        "shared": shared,
        "unlisted": study.unlisted,
        "folder": study.folder,
    }


OUTCOME = Column("verdict", words.outcome)


def _naming(study: Study, rows: Sequence[Row]) -> tuple[list[Column], str]:
    """The columns that tell rows apart, and in words what is the same in all of them."""
    candidates = (
        Column("model", lambda row: row["model"]),
        Column("arguments", lambda row: "" if row["model_args"] == "{}" else row["model_args"]),
        Column("shape", lambda row: words.sizes(row["shape"])),
        Column("phase", words.phase),
        Column("where", study.place),
        AGAINST,
        BUDGET,
        CACHE,
    )
    told = {column: {column.cell(row) for row in rows} for column in candidates}
    varying = [column for column, values in told.items() if len(values) > 1]
    same = {column: next(iter(v)) for column, v in told.items() if len(v) == 1}
    naming = [*NAMING, *varying, OUTCOME]
    return naming, ", ".join(_shared(column, text) for column, text in same.items() if text)


def _shared(column: Column, text: str) -> str:
    prefix = {AGAINST: "against ", BUDGET: "budget=", CACHE: "compile_cache="}.get(column, "")
    return text if text == "no baseline" else prefix + text


def _line(
    study: Study,
    row: Row,
    naming: Sequence[Column],
    reported: Sequence[Column],
    further: Sequence[Column],
) -> Line:
    ok = row["status"] == "ok"
    return Line(
        anchor=study.anchor(row),
        glyph=glyph(row),
        names=tuple(column.cell(row) for column in naming),
        cells=tuple(_cell(column, row) for column in reported) if ok else (),
        further=tuple(_cell(column, row) for column in further) if ok else (),
        reason=None if ok else " ".join((row["reason"] or "no reason was recorded").split()),
        counts=words.why_left_out(row) is None,
    )


def _cell(column: Column, row: Row) -> Cell:
    return Cell(column.cell(row), column.align == ">", _key(column, row))


def _key(column: Column, row: Row) -> str | None:
    """Infinity is told by a number, which a browser reads as well; what is not shown by none."""
    value = None if column.key is None else words.that_counts(row, column.key)
    if value is None or column.cell(row) == numbers.UNKNOWN:
        return None
    return "1e308" if math.isinf(value) else f"{value:.7g}"
