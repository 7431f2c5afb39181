"""The chapters of figures in a report: each model over its sizes, then at each size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import pandas as pd

from modescope.analysis.derive.select import ANY_DATA, FAMILY, SECTION, split_table, values_of
from modescope.analysis.derive.series import grids, series
from modescope.analysis.figures.registry import (
    OF_DATA,
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
from modescope.analysis.rows.values import as_rows

MOST_SHAPES = 4  # a work with more shapes has figures over its sizes only
# Drawing a figure takes about 0.4 s. The second limit is for reports that do not list all rows.
MOST_FIGURES, MOST_OF_LARGE = 60, 24


@dataclass(frozen=True)
class Chapter:
    """Figures and tables of one model and phase under one heading.

    `place` names the machine. `note` says why there are no figures. `family` holds the values of
    the columns FAMILY, by which the first screen finds a figure of its model and phase.
    """

    title: str
    place: str | None = None
    pictures: Iterable[Picture] = ()
    tables: Sequence[Table] = ()  # folded
    note: str | None = None
    family: tuple[object, ...] = ()


def chapters(study: Study) -> list[Chapter]:
    """Returns the chapters of a study, which together have a limited number of figures.

    A chapter without figures is kept only if it has a note.
    """
    most = left = MOST_OF_LARGE if study.unlisted else MOST_FIGURES
    chosen = []
    for chapter in _chapters(study):
        if not left:
            note = f"No figure: a report draws at most {most}. Choose fewer rows with --where."
            chosen.append(Chapter("further works and sizes", note=note))
            break
        shown = list(islice(chapter.pictures, left))
        left -= len(shown)
        if shown or chapter.note:
            chosen.append(replace(chapter, pictures=shown, note=None if shown else chapter.note))
    return chosen


def _chapters(study: Study) -> Iterator[Chapter]:
    """Yields all chapters, whose pictures are drawn only when they are iterated over."""
    families = list(split_table(study.rows, FAMILY))
    for number, family in enumerate(families, start=1):
        yield from _over_sizes(study, family, f"{number}")
    for number, work in enumerate(split_table(study.rows, ANY_DATA), start=1):
        if work["data"].nunique(dropna=False) > 1:
            yield _of_data(study, work, f"{number}")
    numbered = count(1)
    for family in families:
        yield from _at_sizes(study, family, numbered)


def _over_sizes(study: Study, family: pd.DataFrame, name: str) -> Iterator[Chapter]:
    row = as_rows(family.head(1))[0]
    title, place, key = phrases.work_at(row, "{}"), study.place(row), values_of(row, FAMILY)
    drawn = pictures(OF_GRIDS, grids(family), name)
    yield Chapter(f"{title}: all sizes", place, drawn, family=key)
    for number, part in enumerate(series(family), start=1):
        title = f"{phrases.work_at(row, part.others)}: over {part.size}"
        drawn = pictures(OF_SERIES, part, f"{name}-{number}")
        yield Chapter(title, place, drawn, [series_table(part)], family=key)


def _of_data(study: Study, work: pd.DataFrame, name: str) -> Chapter:
    row = as_rows(work[work["data"].isna()].head(1) if work["data"].isna().any() else work.head(1))[
        0
    ]
    title, key = f"{phrases.work(row)}: warm and cold data", values_of(row, FAMILY)
    return Chapter(title, study.place(row), pictures(OF_DATA, work, name), family=key)


def _at_sizes(study: Study, family: pd.DataFrame, numbered: Iterator[int]) -> Iterator[Chapter]:
    row = as_rows(family.head(1))[0]
    place, key, shapes = study.place(row), values_of(row, FAMILY), family["shape"].nunique()
    if shapes > MOST_SHAPES:
        title = f"{phrases.work_at(row, '{}')}: single shapes"
        note = (
            f"Each of the {shapes} shapes is in the table. A work with more than {MOST_SHAPES} "
            "shapes has figures over its sizes only. Choose fewer shapes with --where to see "
            "figures of each."
        )
        yield Chapter(title, place, note=note, family=key)
        return
    nothing = (
        "No figure: no run ended ok, in effect, with more than a smoke budget and with an interval."
    )
    for shape in split_table(family, SECTION):
        title = phrases.work(as_rows(shape.head(1))[0])
        marked = shape.assign(is_recommended=shape["run_id"].isin(study.recommended))
        drawn = pictures(OF_SECTION, marked, f"{next(numbered)}")
        where = study.conditions(as_rows(shape))
        yield Chapter(title, where, drawn, [*section_tables(shape)], nothing, key)
