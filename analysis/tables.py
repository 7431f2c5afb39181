"""A titled table of cells, for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.columns import Column, wanted
from analysis.words import Row


@dataclass(frozen=True)
class Table:
    """A titled table of cells."""

    title: str
    titles: tuple[str, ...]
    named: int  # leading columns that are names, aligned on the left; the others are numbers
    rows: tuple[tuple[str, ...], ...]


def of_columns(
    title: str, rows: Sequence[Row], naming: Sequence[Column], columns: Sequence[Column]
) -> Table:
    """A line per row, with those of `columns` that have something to say."""
    kept = (*naming, *wanted(columns, rows))
    lines = tuple(tuple(column.cell(row) for column in kept) for row in rows)
    return Table(title, tuple(column.title for column in kept), len(naming), lines)
