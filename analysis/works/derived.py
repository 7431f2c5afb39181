"""The derived table of a study, or of those works of a large one that are asked for.

A study of a million runs does not fit into a table of Python objects. What `--where` says about
stored columns of the case therefore decides which works are read; a row depends on no other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modescope.analysis.filters.pushdown import Pushed, pushed
from modescope.analysis.filters.selection import Selection, select
from modescope.analysis.filters.values import Meaningless
from modescope.analysis.format import phrases
from modescope.analysis.load import chosen, keys
from modescope.analysis.load.keys import CLOSED, Keys
from modescope.analysis.load.remote import Folder
from modescope.analysis.load.study import Runs, read
from modescope.analysis.metrics.registry import of_runs
from modescope.analysis.rows.select import natural, values_of
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import runner

MOST_ROWS = 1000
"""Rows of a large study that a terminal shows without --all: the first works, each whole."""


@dataclass(frozen=True)
class Table:
    """Derived rows; `total`: the rows that the whole study has."""

    rows: pd.DataFrame
    left_out: dict[str, str]
    total: int
    notes: tuple[str, ...] | None = None  # on `where`, of which a part holds in no row of the study
    runs: Runs | None = None  # that the rows were derived from

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the study."""
        return len(self.rows) == self.total

    def where(self, expression: str) -> Selection:
        """The rows that match an expression, counted among those of the whole study."""
        found = select(self.rows, expression)
        if self.is_whole:
            return found
        among = tuple(f"{note} (in the works that were read for it)" for note in found.notes)
        return replace(found, total=self.total, notes=among if self.notes is None else self.notes)


def table(folder: Folder, where: str | None = None, first: bool = False) -> Table:
    """The derived rows of a study.

    Of a large study only the works in which a row may match `where`; or, if `first`, the first ones
    with MOST_ROWS rows. UsageError if no run could be read.
    """
    condition = None if where is None else pushed(where, keys.WORK)
    if (first or condition) and chosen.is_large(folder):
        asked = _Asked(condition)
        found = chosen.read(folder, asked.choose, () if condition is None else condition.names)
        if found is not None and len(found.keys):
            rows = of_runs(found.runs)
            return Table(rows, found.runs.left_out, found.keys.rows, asked.notes, found.runs)
    runs = read(folder)
    if not runs.stored.num_rows:
        raise UsageError(
            f"no run could be read in {folder}/runs or {folder}/compact; measure one with "
            f"`{runner()} study=NAME`"
        )
    rows = of_runs(runs)
    return Table(rows, runs.left_out, len(rows), runs=runs)


class _Asked:
    """The runs that are asked for: those in which a condition holds, or those of the first works.

    Where it holds in no run, or is invalid, the first works are read, too: the whole expression is
    then evaluated on them, for its messages.
    """

    def __init__(self, condition: Pushed | None) -> None:
        self.notes: tuple[str, ...] | None = None
        self._condition = condition

    def choose(self, found: Keys) -> NDArray[np.bool_]:
        if self._condition is None:
            return _first(found)
        values, places = found.distinct(self._condition.names)
        try:
            holds, notes = self._condition.evaluated(values)
        except (Meaningless, ArithmeticError, TypeError, ValueError, RecursionError):
            return _first(found)
        if not holds.any():
            self.notes = notes
            return _first(found)
        return holds[places]


def _first(found: Keys) -> NDArray[np.bool_]:
    """The runs of the first works that together have MOST_ROWS rows or more."""
    values, places = found.distinct(CLOSED)
    rows = pd.DataFrame({"work": places, "case": found.cases}).drop_duplicates()
    counts = rows["work"].value_counts()
    each = [values_of(row, CLOSED) for row in phrases.as_rows(values)]
    order = sorted(range(len(values)), key=lambda place: natural(CLOSED, each[place]))
    wanted = np.zeros(len(values), dtype=bool)
    total = 0
    for place in order:
        wanted[place] = True
        total += counts[place]
        if total >= MOST_ROWS:
            break
    return wanted[places]
