"""The figures of a report: each work over its sizes, then at each size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice

import pandas as pd

from analysis import numbers, pictures, readings, style, words
from analysis.columns import NAMING, told_by
from analysis.details import details
from analysis.page.study import Study
from analysis.pictures import Picture
from analysis.rows import SECTION, parts
from analysis.series import Series, by_slope, families, series
from analysis.tables import Table

MOST_SHAPES = 4  # of one work: of more, the single shapes have no figures of their own
# Of a report, as drawing takes a tenth of a second each; of one that does not list all its rows.
MOST_FIGURES, MOST_OF_LARGE = 60, 24

_NOTHING = (
    "No figure: no run of these ended ok, in effect, with more than a smoke budget and with an "
    "interval."
)


@dataclass(frozen=True)
class Chapter:
    """Figures that belong together under one heading; `note` says why there is none."""

    title: str
    place: str | None
    pictures: tuple[Picture, ...]
    tables: tuple[Table, ...]  # folded away
    note: str | None


@dataclass(frozen=True)
class _Plan:
    """A chapter before anything is drawn; `note` None: it is left out where nothing is."""

    title: str
    place: str
    pictures: Iterator[Picture]  # each is drawn when it is asked for
    tables: tuple[Table, ...]
    note: str | None = None


def chapters(study: Study) -> list[Chapter]:
    """What varies over sizes comes first, for every work; then the works at each size."""
    most = MOST_OF_LARGE if study.unlisted else MOST_FIGURES
    found, left, silent = [], most, 0
    for plan in _plans(study):
        shown = tuple(islice(plan.pictures, left))
        silent += not left and plan.note is None
        note = None if shown else plan.note if left else plan.note and _full(most)
        if shown or note:
            found.append(Chapter(plan.title, plan.place, shown, plan.tables, note))
        left -= len(shown)
    if silent:
        found.append(Chapter("further sizes", None, (), (), _full(most)))
    return found


def drawn(found: Iterable[Chapter]) -> Iterator[Picture]:
    """The figures of all chapters."""
    for chapter in found:
        yield from chapter.pictures


def _plans(study: Study) -> Iterator[_Plan]:
    every = families(study.rows)
    for number, family in enumerate(every, start=1):
        yield from _over_sizes(study, family, f"{number}")
    numbered = count(1)
    for family in every:
        yield from _at_sizes(study, family, numbered)


def _over_sizes(study: Study, family: pd.DataFrame, name: str) -> Iterator[_Plan]:
    row = words.as_rows(family.head(1))[0]
    title, place = words.work_at(row, "{}"), study.place(row)
    yield _Plan(f"{title}: all sizes", place, pictures.of_family(family, name), ())
    for number, found in enumerate(series(family), start=1):
        title = f"{words.work_at(row, found.others)}: over {found.size}"
        shown = pictures.of_series(found, f"{name}-{number}")
        yield _Plan(title, place, shown, (_bounds(found),))


def _bounds(found: Series) -> Table:
    """Which sizes were measured, and at which each mode is bound by overhead."""
    slope = (f"{found.overhead.name} per {found.unit} [95 %]",) if found.is_chain else ()
    titles = ("mode", f"{found.size} measured", *slope, "bound by overhead")
    return Table("Bound by overhead", titles, len(titles), tuple(_bound_lines(found)))


def _bound_lines(found: Series) -> Iterator[tuple[str, ...]]:
    """Of a chain the cheapest overhead first."""
    known = [line for line, _ in by_slope(found)] if found.is_chain else []
    others = [line for line in found.lines if line not in known]
    for line in (*known, *sorted(others, key=lambda line: style.order(line.rows[0]))):
        slope = (numbers.estimate(line.slope),) if found.is_chain else ()
        sizes = f"{min(line.sizes)} to {max(line.sizes)}, {len(line.sizes)} rows"
        yield line.name, sizes, *slope, readings.bound(line, found)


def _at_sizes(study: Study, family: pd.DataFrame, numbered: Iterator[int]) -> Iterator[_Plan]:
    shapes = family["shape"].nunique()
    if shapes > MOST_SHAPES:
        row = words.as_rows(family.head(1))[0]
        title = f"{words.work_at(row, '{}')}: single shapes"
        yield _Plan(title, study.place(row), iter(()), (), _many(shapes))
        return
    for shape in parts(family, SECTION):
        rows = words.as_rows(shape)
        tables = tuple(details(rows, (*NAMING, *told_by(rows))))
        shown = pictures.of_section(shape, f"{next(numbered)}")
        yield _Plan(words.work(rows[0]), study.place(rows[0]), shown, tables, _NOTHING)


def _full(most: int) -> str:
    return (
        f"No figure: this report draws {most} at most. One of a part of the study has others: "
        "--where chooses the rows."
    )


def _many(shapes: int) -> str:
    return (
        f"Each of the {shapes} shapes is in the table; a work of more than {MOST_SHAPES} has "
        "figures over its sizes only. A report of some of them has the others: --where chooses the "
        "rows."
    )
