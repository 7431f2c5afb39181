"""Tables of text, which templates print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis.format.columns import Column, wanted
from modescope.analysis.format.phrases import Row


@dataclass(frozen=True)
class Table:
    """A table of text with its title."""

    title: str
    titles: tuple[str, ...]
    named: int  # number of leading columns that hold names, left-aligned; the others hold numbers
    rows: tuple[tuple[str, ...], ...]


def of_columns(
    title: str, rows: Sequence[Row], naming: Sequence[Column], columns: Sequence[Column]
) -> Table:
    """A line per row, with the naming columns and those of `columns` that are `wanted`."""
    kept = (*naming, *wanted(columns, rows))
    lines = tuple(tuple(column.cell(row) for column in kept) for row in rows)
    return Table(title, tuple(column.title for column in kept), len(naming), lines)
