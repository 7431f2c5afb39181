"""Speedups of one work by mode and size, which a heatmap shows and a sentence sums up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis import numbers, style, words
from analysis.rows import GROUP, parts, trusted
from analysis.words import Row
from bench.records import canonical_json

FIRST = "batch"  # the size that a reader asks for; of others the one with most values
MIN_SIZES = 2
_CONTEST = tuple(name for name in GROUP if name != "shape")


@dataclass(frozen=True)
class Grid:
    """Trusted rows of one precision against one baseline that differ in mode and in `size`."""

    size: str
    others: str  # the sizes that are equal in all, canonical JSON
    sizes: tuple[int, ...]  # two or more, rising
    names: tuple[str, ...]  # of the modes
    modes: tuple[tuple[Row | None, ...], ...]  # for each of them a row for each of the sizes

    @property
    def first(self) -> Row:
        """Any row, for what all have in common."""
        return next(row for mode in self.modes for row in mode if row is not None)


def grids(family: pd.DataFrame) -> list[Grid]:
    """The grids of one FAMILY over the size that varies in it; none where none does."""
    size = _varying(family["shape"])
    if size is None:
        return []
    return [
        grid
        for contest in parts(trusted(family), _CONTEST)
        for others, rows in _by_others(words.as_rows(contest), size)
        if (grid := _grid(size, others, rows)) is not None
    ]


def _varying(shapes: pd.Series) -> str | None:
    """The size with several values: FIRST if it is one, else that with most of them."""
    values: dict[str, set[int]] = {}
    for shape in map(json.loads, shapes.unique()):
        for name, value in shape.items():
            values.setdefault(name, set()).add(value)
    several = {name: len(found) for name, found in values.items() if len(found) >= MIN_SIZES}
    if FIRST in several:
        return FIRST
    return max(several, key=lambda name: several[name], default=None)


def _by_others(rows: Sequence[Row], size: str) -> Iterator[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        shape = json.loads(row["shape"])
        if shape.pop(size, None) is not None:
            found.setdefault(canonical_json(shape), []).append(row)
    yield from found.items()


def _grid(size: str, others: str, rows: Sequence[Row]) -> Grid | None:
    """None where fewer than MIN_SIZES sizes are left."""
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
    return f"{words.mode(row)}, {row['compile_cache']} cache" if caches else words.mode(row)


def reading(found: Sequence[Grid]) -> str:
    """Which mode is fastest at which size?"""
    return " ".join(_sentence(grid, len({g.others for g in found}) > 1) for grid in found)


def _sentence(grid: Grid, several: bool) -> str:
    told: dict[str, list[str]] = {}
    for place, value in enumerate(grid.sizes):
        column = [row for mode in grid.modes if (row := mode[place]) is not None]
        told.setdefault(_fastest(column), []).append(str(value))
    where = f"{words.sizes(grid.others)}, " if several and grid.others != "{}" else ""
    parts_ = "; ".join(f"at {grid.size} {words.listed(at)}: {who}" for who, at in told.items())
    return f"Fastest, {where}{words.contest(grid.first)}, {parts_}."


def _fastest(rows: Sequence[Row]) -> str:
    faster = [row for row in rows if row["verdict"] == "faster" and not words.is_control(row)]
    if not faster:
        return "none is shown to be faster"
    best = max(faster, key=lambda row: row["speedup_ci_low"])
    tied = [
        words.mode(row) for row in rows
        if row is not best and row["speedup_ci_high"] >= best["speedup_ci_low"]
    ]  # fmt: skip
    return _or(words.mode(best), tied)


def _or(best: str, tied: Sequence[str]) -> str:
    return f"{best} (or {', '.join(tied)}: intervals overlap)" if tied else best


def cell(row: Row | None) -> str:
    """What a table says of one mode at one size."""
    return numbers.UNKNOWN if row is None else words.speedup(row)
