"""Small tables of a section that its page folds away: counts of one call, what was heaviest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis import heaviest
from analysis.columns import COUNTED, Column, wanted
from analysis.tables import Table, of_columns
from analysis.words import Row


def details(rows: Sequence[Row], naming: Sequence[Column]) -> Iterator[Table]:
    """The tables of a section that have something to say; `naming` tells its rows apart.

    Of rows that ended ok, in effect or not: what ran is what ran.
    """
    ok = [row for row in rows if row["status"] == "ok"]
    if wanted(COUNTED, ok):
        yield of_columns("Operators, generated code and allocations", ok, naming, COUNTED)
    for kind in heaviest.KINDS:
        if lines := tuple(heaviest.table(ok, kind)):
            yield Table(kind.title, kind.titles, heaviest.NAMED, lines)
