"""Lays out derived rows as a table for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import pandas as pd

from modescope.analysis.derive import over_fp32
from modescope.analysis.derive.flags import banner, legend
from modescope.analysis.derive.select import SECTION, ordered, split_rows
from modescope.analysis.format import phrases, skips
from modescope.analysis.format.baselines import against
from modescope.analysis.format.cells import graph_breaks
from modescope.analysis.format.columns import AGAINST, Column, distinguishing, measured
from modescope.analysis.format.phrases import WIDTH, indented_paragraph
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.outcomes import Status

_MARKS = ("*", "†", "‡", "§", "¶")
_GAP = "  "


def table_lines(frame: pd.DataFrame) -> list[str]:
    """Returns the lines of the table: column titles, a block per section, and notes.

    `frame` has derived rows. A section is a model at one size, in one phase. Skipped cases have a
    line per reason below the rows of their section, with the whole reason if no row is ok.
    """
    blocks = split_rows(as_rows(ordered(frame)), SECTION)
    every = [row for block in blocks for row in block]
    marks = _marks(every)
    naming = (
        Column(" mode", lambda row: f" {phrases.mode(row)}{_mark(row, marks)}"),
        Column("dtype", lambda row: row["dtype"]),
        *((AGAINST,) if any(map(_has_several, blocks)) else ()),
        *distinguishing(every),
    )
    listed = [row for row in every if row["status"] != Status.SKIPPED]
    is_none_ok = not any(row["status"] == Status.OK for row in every)
    columns, widths = _fitting(naming, measured(every), listed)
    result = [_join([column.title for column in columns], columns, widths)]
    letter = len({row["environment"] for row in every}) > 1
    for block in blocks:
        data = phrases.from_cache([row for row in block if row["status"] == Status.OK])
        parts = (phrases.work(block[0]), phrases.place(block[0], letter), data, against(block))
        result.append(" · ".join(filter(None, parts)))
        for row in (row for row in block if row["status"] != Status.SKIPPED):
            cells = [
                column.cell(row) for column in (columns if row["status"] == Status.OK else naming)
            ]
            result += _with_reason(row, _join(cells, columns, widths))
        for line in skips.lines(block, whole=is_none_ok):
            result += textwrap.wrap(f" {line}", WIDTH, subsequent_indent="    ")
    for note, mark in marks.items():
        result += textwrap.wrap(f"{mark} {note}", WIDTH, subsequent_indent="  ")
    for note in (_no_dispatch(every), over_fp32.legend(every), legend(every), banner(every)):
        result += textwrap.wrap(note, WIDTH, subsequent_indent="  ")
    return result


def _has_several(block: Sequence[Row]) -> bool:
    """Whether rows of a section are paired with different baselines."""
    return len({phrases.baseline(row) for row in block}) > 1


def _fitting(
    naming: Sequence[Column], others: Sequence[Column], every: Sequence[Row]
) -> tuple[list[Column], list[int]]:
    columns = [*naming, *others]
    ok = [row for row in every if row["status"] == Status.OK]
    cells = [(column, map(column.cell, every if column in naming else ok)) for column in columns]
    widths = [max(len(column.title), *map(len, texts), 0) for column, texts in cells]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH:
        spare = [column.spare for column in columns]
        if max(spare) == 0:
            break
        place = spare.index(max(spare))
        del columns[place], widths[place]
    return columns, widths


def _join(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = [
        f"{cell:{column.align}{width}}"
        for cell, column, width in zip(cells, columns, widths, strict=False)  # a span ends early
    ]
    return _GAP.join(aligned).rstrip() if len(cells) == len(columns) else _GAP.join(aligned)


def _with_reason(row: Row, line: str) -> list[str]:
    """Returns the lines of a row; a row that is not ok has its reason in place of numbers.

    `line` has the cells of the row. A long reason goes on lines below.
    """
    if row["status"] == Status.OK:
        return [line]
    room = max(WIDTH - len(line) - len(_GAP), 20)
    reason = predicates.status_and_reason(row)
    if len(reason) <= room:
        return [f"{line}{_GAP}{reason}"]
    return [f"{line}{_GAP}{row['status']}:", *indented_paragraph(reason.partition(": ")[2])]


def _marks(rows: Iterable[Row]) -> dict[str, str]:
    notes = dict.fromkeys(note for row in rows if (note := _note(row)))
    return {
        note: _MARKS[index] if index < len(_MARKS) else f"*{index + 1}"
        for index, note in enumerate(notes)
    }


def _mark(row: Row, marks: dict[str, str]) -> str:
    note = _note(row)
    return f" {marks[note]}" if note else ""


def _note(row: Row) -> str:
    why = row["in_effect_note"] or "no reason was recorded"
    notes = [f"not in effect: {why}"] if predicates.not_in_effect(row) else []
    notes += [f"not checked: {reason}"] if (reason := predicates.unchecked(row)) else []
    notes += phrases.model_remarks(row)
    return "; ".join(filter(None, (*notes, graph_breaks(row))))


def _no_dispatch(rows: Iterable[Row]) -> str:
    """Returns why no row has a dispatch time, where one is usual and the reason is recorded.

    None is usual for a training step and for calls of different sizes.
    """
    usual = [row for row in rows if row["phase"] == "inference" and row["calls"] is None]
    notes = dict.fromkeys(row["dispatch_note"] for row in usual if row["dispatch_note"])
    if not notes or any(row["dispatch_paired_s"] is not None for row in usual):
        return ""
    return f"dispatch is unknown: {'; '.join(notes)}"
