"""The derived table as aligned text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import pandas as pd

from analysis import words
from analysis.columns import AGAINST, MEASURED, Column, told_by, wanted
from analysis.rows import SECTION, ordered, row_parts
from analysis.words import Row

WIDTH = 132  # spare columns are left out to keep to it; numbers never are
_MARKS = ("*", "†", "‡", "§", "¶")
_GAP = "  "
_INDENT = " " * 4


def lines(frame: pd.DataFrame) -> list[str]:
    """Titles, then a block per section (same work, same machine), then a line per note."""
    blocks = row_parts(words.as_rows(ordered(frame)), SECTION)
    every = [row for block in blocks for row in block]
    marks = _marks(every)
    shared = len({words.baseline(row) for row in every}) == 1
    naming = (
        Column(" mode", lambda row: f" {words.mode(row)}{_mark(row, marks)}"),
        Column("dtype", lambda row: row["dtype"]),
        *(() if shared else (AGAINST,)),
        *told_by(every),
    )
    columns, widths = _fitting(naming, wanted(MEASURED, every), every)
    result = [_join([column.title for column in columns], columns, widths)]
    letter = len({row["environment"] for row in every}) > 1
    for block in blocks:
        result.append(_heading(block[0], letter, shared))
        for row in block:
            cells = [column.cell(row) for column in (columns if row["status"] == "ok" else naming)]
            result += _with_reason(row, _join(cells, columns, widths), alone=len(every) == 1)
    for note, mark in marks.items():
        result += textwrap.wrap(f"{mark} {note}", WIDTH, subsequent_indent="  ")
    return result


def _fitting(
    naming: Sequence[Column], measured: Sequence[Column], every: Sequence[Row]
) -> tuple[list[Column], list[int]]:
    """The columns that fit into WIDTH, without as many of the spare ones as it takes; widths."""
    columns = [*naming, *measured]
    widths = [_width(column, every if column in naming else _ok(every)) for column in columns]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > WIDTH:
        spare = [column.spare for column in columns]
        if max(spare) == 0:
            break
        place = spare.index(max(spare))
        del columns[place], widths[place]
    return columns, widths


def _ok(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "ok"]


def _width(column: Column, rows: Iterable[Row]) -> int:
    return max([len(column.title), *(len(column.cell(row)) for row in rows)])


def _join(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = [
        f"{cell:{column.align}{width}}"
        for cell, column, width in zip(cells, columns, widths, strict=False)  # a span ends early
    ]
    return _GAP.join(aligned).rstrip() if len(cells) == len(columns) else _GAP.join(aligned)


def _with_reason(row: Row, line: str, alone: bool) -> list[str]:
    """A row without numbers has its reason in their place, or whole beneath it if it is long.

    Only why a case was skipped is cut, and only in a row among others.
    """
    if row["status"] == "ok":
        return [line]
    room = max(WIDTH - len(line) - len(_GAP), 20)
    reason = words.ended(row)
    if len(reason) <= room:
        return [f"{line}{_GAP}{reason}"]
    if row["status"] == "skipped" and not alone:
        return [f"{line}{_GAP}{textwrap.shorten(reason, room, placeholder=' …')}"]
    return [f"{line}{_GAP}{row['status']}:", *beneath(reason.partition(": ")[2])]


def paragraph(text: str) -> list[str]:
    """`text` over lines of WIDTH, all but the first indented; paths in it are not broken."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=_INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def beneath(text: str) -> list[str]:
    """The same, all lines indented."""
    return paragraph(_INDENT + text)


def _heading(row: Row, letter: bool, shared: bool) -> str:
    against = f" · against {words.baseline(row)}" if shared else ""
    return f"{words.work(row)} · {words.place(row, letter)}{against}"


def _marks(rows: Iterable[Row]) -> dict[str, str]:
    """A mark for each distinct note: that a mode was not in effect, or where its graphs broke."""
    notes = dict.fromkeys(note for row in rows if (note := _note(row)))
    return {
        note: _MARKS[index] if index < len(_MARKS) else f"*{index + 1}"
        for index, note in enumerate(notes)
    }


def _mark(row: Row, marks: dict[str, str]) -> str:
    note = _note(row)
    return f" {marks[note]}" if note else ""


def _note(row: Row) -> str:
    why = row["in_effect_note"] or "no note was recorded"
    notes = [f"not in effect: {why}"] if words.not_in_effect(row) else []
    return "; ".join(filter(None, (*notes, words.graph_breaks(row))))
