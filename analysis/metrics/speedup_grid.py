"""Speedups of one work by mode and size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from modescope.analysis.format import phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows.select import GROUP, parts, trusted
from modescope.bench.records.ids import canonical_json

FIRST = "batch"  # the preferred size; else the one with most values
MIN_SIZES = 2
_CONTEST = tuple(name for name in GROUP if name != "shape")


@dataclass(frozen=True)
class Grid:
    """Trusted rows of one precision and baseline that differ in mode and in `size`."""

    size: str
    others: str  # the other sizes, equal in all rows; canonical JSON
    sizes: tuple[int, ...]  # two or more, rising
    names: tuple[str, ...]  # of the modes
    modes: tuple[tuple[Row | None, ...], ...]  # for each mode a row per size

    @property
    def first(self) -> Row:
        """Any row, for the values that all share."""
        return next(row for mode in self.modes for row in mode if row is not None)


def grids(family: pd.DataFrame) -> list[Grid]:
    """The grids of one FAMILY over its varying size; empty if no size varies."""
    size = _varying(family["shape"])
    if size is None:
        return []
    return [
        grid
        for contest in parts(trusted(family), _CONTEST)
        for others, rows in _by_others(phrases.as_rows(contest), size)
        if (grid := _grid(size, others, rows)) is not None
    ]


def _varying(shapes: pd.Series) -> str | None:
    """The size to compare over: FIRST if it has several values, else the one with most values."""
    sizes = (size for shape in shapes.unique() for size in json.loads(shape).items())
    counts = {name: len(set(values)) for name, values in phrases.grouped(sizes).items()}
    several = {name: count for name, count in counts.items() if count >= MIN_SIZES}
    if FIRST in several:
        return FIRST
    return max(several, key=lambda name: several[name], default=None)


def _by_others(rows: Sequence[Row], size: str) -> Iterator[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        shape = json.loads(row["shape"])
        if shape.pop(size, None) is not None:
            groups.setdefault(canonical_json(shape), []).append(row)
    yield from groups.items()


def _grid(size: str, others: str, rows: Sequence[Row]) -> Grid | None:
    """The grid of these rows; None for fewer than MIN_SIZES sizes."""
    caches = len({row["compile_cache"] for row in rows}) > 1
    at = {(_name(row, caches), json.loads(row["shape"])[size]): row for row in rows}
    sizes = tuple(sorted({value for _, value in at}))
    if len(sizes) < MIN_SIZES:
        return None
    looks = {_name(row, caches): style.order(row) for row in rows}
    names = tuple(sorted(looks, key=lambda name: looks[name]))
    modes = tuple(tuple(at.get((name, value)) for value in sizes) for name in names)
    return Grid(size, others, sizes, names, modes)


def _name(row: Row, caches: bool) -> str:
    return f"{phrases.mode(row)}, {row['compile_cache']} cache" if caches else phrases.mode(row)
