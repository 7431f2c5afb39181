"""Small tables of a section that its page folds away: counts of one call, what was heaviest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis import heaviest
from analysis.columns import COUNTED, Column, wanted
from analysis.words import Row


@dataclass(frozen=True)
class Details:
    """A titled table of cells."""

    title: str
    titles: tuple[str, ...]
    named: int  # leading columns that are names, aligned on the left; the others are numbers
    rows: tuple[tuple[str, ...], ...]


def details(rows: Sequence[Row], naming: Sequence[Column]) -> Iterator[Details]:
    """The tables of a section that have something to say; `naming` tells its rows apart.

    Of rows that ended ok, in effect or not: what ran is what ran.
    """
    ok = [row for row in rows if row["status"] == "ok"]
    if counted := wanted(COUNTED, ok):
        columns = (*naming, *counted)
        lines = tuple(tuple(column.cell(row) for column in columns) for row in ok)
        titles = tuple(column.title for column in columns)
        yield Details("Operators, generated code and allocations", titles, len(naming), lines)
    for kind in heaviest.KINDS:
        if lines := tuple(heaviest.table(ok, kind)):
            yield Details(kind.title, kind.titles, heaviest.NAMED, lines)
