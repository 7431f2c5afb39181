"""Short lists of rows: grouped by work and limited in length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.report.glyphs import Glyph, glyph
from modescope.analysis.report.study import Study

NEEDED = (
    "run_id", "mode", "apart", "dtype", "autocast", "compile_mode", "graph", "model", "model_args",
    "model_inputs", "shape", "phase", "optimizer", "training", "calls",
    *phrases.PLACE, "compile_cache",
)  # fmt: skip
"""The columns that a row needs to be named."""
MOST_NAMES, MOST_WORKS = 24, 12  # names per work; works per list


@dataclass(frozen=True)
class Name:
    """The name of a row within its work, and the anchor of its command on the page."""

    text: str
    glyph: Glyph
    anchor: str | None


@dataclass(frozen=True)
class Named:
    """Rows of one work."""

    work: str
    names: tuple[Name, ...]
    more: int  # further rows of this work, not named


@dataclass(frozen=True)
class Names:
    """Rows grouped by work."""

    works: tuple[Named, ...]
    more: int  # further works, not listed
    count: int  # rows in all


def named(study: Study, rows: Sequence[Row]) -> Names:
    """The names of `rows`, in their order."""
    places = [f" on {study.place(row)}" if study.has_letters else "" for row in rows]
    pairs = zip(rows, places, strict=True)
    by_work = phrases.grouped((phrases.work(row) + place, row) for row, place in pairs)
    shown = list(by_work.items())[:MOST_WORKS]
    return Names(
        tuple(_of_work(study, work, members) for work, members in shown),
        len(by_work) - len(shown),
        len(rows),
    )


def _of_work(study: Study, work: str, rows: Sequence[Row]) -> Named:
    names = tuple(name(study, row) for row in rows[:MOST_NAMES])
    return Named(work, names, max(0, len(rows) - MOST_NAMES))


def name(study: Study, row: Row) -> Name:
    """The name of one row; with its compiler cache if rows of the study differ in it."""
    cache = f" ({row['compile_cache']} cache)" if study.has_caches else ""
    return Name(phrases.variant(row) + cache, glyph(row), study.anchor(row))
