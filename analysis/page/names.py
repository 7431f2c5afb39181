"""Many rows named briefly: by their work, and not more of them than a reader takes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis import words
from analysis.page.glyphs import Glyph, glyph
from analysis.page.study import Study
from analysis.words import Row

NEEDED = (
    "run_id", "mode", "apart", "dtype", "autocast", "compile", "graph", "model", "model_args",
    "shape", "phase", "optimizer", "training", *words.PLACE, "compile_cache",
)  # fmt: skip
"""Columns of a row that is named here."""
MOST_NAMES, MOST_WORKS = 24, 12  # of one work; of one list


@dataclass(frozen=True)
class Name:
    """A row by what sets it apart from others of its work, and where the page has its command."""

    text: str
    glyph: Glyph
    anchor: str | None


@dataclass(frozen=True)
class Named:
    """Rows of one work."""

    work: str
    names: tuple[Name, ...]
    more: int  # of this work, without a name here


@dataclass(frozen=True)
class Names:
    """Rows by their works."""

    works: tuple[Named, ...]
    more: int  # works without a line here
    count: int  # rows in all


def named(study: Study, rows: Sequence[Row]) -> Names:
    """`rows`, in their order."""
    by_work: dict[str, list[Row]] = {}
    for row in rows:
        where = f" on {study.place(row)}" if study.has_letters else ""
        by_work.setdefault(words.work(row) + where, []).append(row)
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
    """One row; with its compiler cache where the study has rows of both kinds."""
    cache = f" ({row['compile_cache']} cache)" if study.has_caches else ""
    return Name(words.variant(row) + cache, glyph(row), study.anchor(row))
