"""The figures of a report: each work over its sizes, then at each size."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice

import pandas as pd

from modescope.analysis.derive.select import FAMILY, SECTION, parts, values_of
from modescope.analysis.derive.series import grids, series
from modescope.analysis.figures.registry import (
    OF_GRIDS,
    OF_SECTION,
    OF_SERIES,
    Picture,
    pictures,
    section_tables,
    series_table,
)
from modescope.analysis.format import phrases
from modescope.analysis.format.columns import Table
from modescope.analysis.report.study import Study

MOST_SHAPES = 4  # a work with more shapes has figures over its sizes only
# Drawing a figure takes about 0.4 s. The second limit is for reports that do not list all rows.
MOST_FIGURES, MOST_OF_LARGE = 60, 24

_NOTHING = (
    "No figure: no run ended ok, in effect, with more than a smoke budget and with an interval."
)


@dataclass(frozen=True)
class Chapter:
    """Figures of one FAMILY under one heading; `note` says why there are none."""

    title: str
    place: str | None
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]  # folded
    note: str | None
    family: tuple[object, ...] = ()

    def without(self, files: Collection[str]) -> Chapter | None:
        """The chapter without these figures; None if it had no others."""
        left = tuple(picture for picture in self.pictures if picture.file not in files)
        empty = bool(self.pictures) and not left and not self.tables
        return None if empty else replace(self, pictures=left)


@dataclass(frozen=True)
class _Plan:
    """A chapter before drawing; with `note` None, a chapter without figures is omitted."""

    family: tuple[object, ...]

    title: str
    place: str
    pictures: Iterator[Picture]  # each is drawn on demand
    tables: tuple[Table, ...]
    note: str | None = None


def chapters(study: Study) -> list[Chapter]:
    """The chapters over sizes of all works, then those at each size."""
    most = MOST_OF_LARGE if study.unlisted else MOST_FIGURES
    chosen, left, silent = [], most, 0
    for plan in _plans(study):
        shown = tuple(islice(plan.pictures, left))
        silent += not left and plan.note is None
        note = None if shown else plan.note if left else plan.note and _full(most)
        if shown or note:
            made = Chapter(plan.title, plan.place, shown, plan.tables, note, plan.family)
            chosen.append(made)
        left -= len(shown)
    if silent:
        chosen.append(Chapter("further sizes", None, (), (), _full(most)))
    return chosen


def _plans(study: Study) -> Iterator[_Plan]:
    every = list(parts(study.rows, FAMILY))
    for number, family in enumerate(every, start=1):
        yield from _over_sizes(study, family, f"{number}")
    numbered = count(1)
    for family in every:
        yield from _at_sizes(study, family, numbered)


def _over_sizes(study: Study, family: pd.DataFrame, name: str) -> Iterator[_Plan]:
    row = phrases.as_rows(family.head(1))[0]
    title, place, key = phrases.work_at(row, "{}"), study.place(row), values_of(row, FAMILY)
    yield _Plan(key, f"{title}: all sizes", place, pictures(OF_GRIDS, grids(family), name), ())
    for number, one in enumerate(series(family), start=1):
        title = f"{phrases.work_at(row, one.others)}: over {one.size}"
        shown = pictures(OF_SERIES, one, f"{name}-{number}")
        yield _Plan(key, title, place, shown, (series_table(one),))


def _at_sizes(study: Study, family: pd.DataFrame, numbered: Iterator[int]) -> Iterator[_Plan]:
    shapes = family["shape"].nunique()
    if shapes > MOST_SHAPES:
        row = phrases.as_rows(family.head(1))[0]
        title, key = f"{phrases.work_at(row, '{}')}: single shapes", values_of(row, FAMILY)
        yield _Plan(key, title, study.place(row), iter(()), (), _many(shapes))
        return
    for shape in parts(family, SECTION):
        row = phrases.as_rows(shape.head(1))[0]
        shown = pictures(OF_SECTION, shape, f"{next(numbered)}")
        tables, key = tuple(section_tables(shape)), values_of(row, FAMILY)
        yield _Plan(key, phrases.work(row), study.place(row), shown, tables, _NOTHING)


def _full(most: int) -> str:
    return (
        f"No figure: a report draws at most {most}. Choose fewer rows with --where to see the "
        "others."
    )


def _many(shapes: int) -> str:
    return (
        f"Each of the {shapes} shapes is in the table. A work with more than {MOST_SHAPES} shapes "
        "has figures over its sizes only. Choose fewer shapes with --where to see figures of each."
    )
