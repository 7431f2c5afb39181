"""Rows that differ in one size: lines of a mode over that size, and grids of several modes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

import pandas as pd

from modescope.analysis.derive import split
from modescope.analysis.derive.select import GROUP, split_table, trusted
from modescope.analysis.derive.split import Overhead, overhead_s
from modescope.analysis.format import phrases, style
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.records.cases import canonical_json
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

MIN_SIZES = 3  # a line always fits two points
CHAINS = ("ops",)  # sizes that count operators, each of which costs overhead
FIRST = "batch"  # the preferred size of a grid; else the one with most values
_CONTEST = tuple(name for name in GROUP if name != "shape")


@dataclass(frozen=True)
class Crossing:
    """The size at which calls change between bound by overhead and bound by work.

    It lies after the measured size `after` and before the measured size `before`. These are the
    nearest sizes at which the intervals decide what binds a call; None if there is no such size.
    """

    size: float
    falling: bool  # whether calls are bound by overhead below this size
    after: int | None
    before: int | None


@dataclass(frozen=True)
class Line:
    """One mode at one precision over the sizes of a series, with a row per size."""

    name: str
    rows: tuple[Row, ...]  # by rising size
    sizes: tuple[int, ...]
    slope: Estimate | None  # of the overhead, seconds per unit of the size
    crossing: Crossing | None


@dataclass(frozen=True)
class SizeSeries:
    """Trusted rows of the same work whose shapes differ only in `size`."""

    size: str  # batch, ops, ...
    others: str  # the other sizes, equal in all rows; canonical JSON
    lines: tuple[Line, ...]  # each over at least MIN_SIZES sizes; in the order of figures

    @property
    def overhead(self) -> Overhead:
        """The kind of overhead that counts on the device of these rows."""
        return split.overhead(self.lines[0].rows[0])

    @property
    def is_chain(self) -> bool:
        """Whether the size counts operators, which makes a slope a cost per operator."""
        return self.size in CHAINS

    @property
    def unit(self) -> str:
        """The singular of the size's name: `op` for `ops`."""
        return self.size.removesuffix("s")


def series(rows: pd.DataFrame) -> list[SizeSeries]:
    """Returns every SizeSeries that the trusted ones of `rows` form, in the order of `_by_varying`.

    All `rows` have equal values in the columns FAMILY: the same model and phase on the same
    machine.
    """
    return [
        SizeSeries(size, others, lines)
        for (size, others), members in _by_varying(as_rows(trusted(rows))).items()
        if (lines := _lines(size, members))
    ]


def by_slope(chain: SizeSeries) -> list[tuple[Line, Estimate]]:
    """Returns each line of `chain` whose slope is known, and its slope, the flattest first."""
    known = [(line, line.slope) for line in chain.lines if line.slope is not None]
    return sorted(known, key=lambda pair: pair[1].value)


def _by_varying(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Groups rows that differ in one size only; the size with the most values comes first.

    The key is the name of that size and the other sizes as JSON. A row is in one group per size.
    """
    shapes = [(row, json.loads(row["shape"])) for row in rows]
    counts = _counts(sizes for _, sizes in shapes)
    groups = grouped(
        ((size, canonical_json({n: v for n, v in sizes.items() if n != size})), row)
        for row, sizes in shapes
        for size in sizes
    )

    def place(key: tuple[str, str]) -> tuple[int, str, list[int]]:
        size, others = key
        return -counts[size], size, [*json.loads(others).values()]

    return {key: groups[key] for key in sorted(groups, key=place)}


def _counts(shapes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns how many values each size has in `shapes`."""
    values = grouped(size for sizes in shapes for size in sizes.items())
    return {name: len(set(found)) for name, found in values.items()}


def _lines(size: str, rows: Sequence[Row]) -> tuple[Line, ...]:
    every = (_line(name, size, members) for name, members in variants(rows).items())
    long = (line for line in every if len(set(line.sizes)) >= MIN_SIZES)
    return tuple(sorted(long, key=lambda line: (style.order(line.rows[0]), line.name)))


def variants(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Groups `rows` (one or more) by the name of their variant.

    The name is the mode, with the dtype, baseline and cache if the rows differ in it.
    """
    groups = grouped((_names(row), row) for row in rows)
    _, *others = zip(*groups, strict=True)  # the mode is always named
    named = [True, *(len(set(names)) > 1 for names in others)]
    return {" ".join(compress(names, named)): members for names, members in groups.items()}


def _names(row: Row) -> tuple[str, ...]:
    cache = f"with a {row['compile_cache']} cache"
    return phrases.mode(row), row["dtype"], f"against {phrases.baseline(row)}", cache


def _line(name: str, size: str, rows: Sequence[Row]) -> Line:
    placed = sorted(((json.loads(row["shape"])[size], row) for row in rows), key=lambda p: p[0])
    sizes, ordered = tuple(place for place, _ in placed), tuple(row for _, row in placed)
    known = [(float(place), seconds) for place, row in placed if (seconds := overhead_s(row))]
    slope = estimates.slope([place for place, _ in known], [seconds for _, seconds in known])
    return Line(name, ordered, sizes, slope, _crossing(placed))


def _crossing(placed: Sequence[tuple[int, Row]]) -> Crossing | None:
    """Interpolates the Crossing of (size, row) pairs between logarithms of neighbouring sizes.

    None unless calls change exactly once between overhead and work. None also if it is unknown at
    any size which of the two binds them.
    """
    excess = [known for _, row in placed if (known := split.excess(row)) is not None]
    if len(excess) < len(placed):
        return None
    changes = [n for n, (a, b) in enumerate(pairwise(excess)) if (a > 0) != (b > 0)]
    if len(changes) != 1:
        return None
    (n,) = changes
    (size, _), (next_size, _) = placed[n : n + 2]
    share = excess[n] / (excess[n] - excess[n + 1])
    falling = excess[n] > 0
    sides = ("overhead", "work") if falling else ("work", "overhead")
    after = [size for size, row in placed[: n + 1] if row["bound_by"] == sides[0]]
    before = [size for size, row in placed[n + 1 :] if row["bound_by"] == sides[1]]
    return Crossing(
        math.exp(math.log(size) + share * math.log(next_size / size)),
        falling,
        max(after, default=None),
        min(before, default=None),
    )


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
        """One of the grid's rows, for the values that all rows share."""
        return next(row for mode in self.modes for row in mode if row is not None)


def grids(family: pd.DataFrame) -> list[Grid]:
    """Returns the grids of `family`, rows with equal values in FAMILY, over one size that varies.

    If several sizes vary, it is FIRST, or else the one with the most values. Empty if none varies.
    """
    size = _varying(family["shape"])
    if size is None:
        return []
    return [
        grid
        for contest in split_table(trusted(family), _CONTEST)
        for (name, others), rows in _by_varying(as_rows(contest)).items()
        if name == size and (grid := _grid(size, others, rows)) is not None
    ]


def _varying(shapes: pd.Series) -> str | None:
    counts = _counts(map(json.loads, shapes.unique()))
    several = {name: count for name, count in counts.items() if count > 1}
    if FIRST in several:
        return FIRST
    return max(several, key=lambda name: several[name], default=None)


def _grid(size: str, others: str, rows: Sequence[Row]) -> Grid | None:
    caches = len({row["compile_cache"] for row in rows}) > 1
    at = {(_mode(row, caches), json.loads(row["shape"])[size]): row for row in rows}
    sizes = tuple(sorted({value for _, value in at}))
    if len(sizes) < 2:
        return None
    looks = {_mode(row, caches): style.order(row) for row in rows}
    names = tuple(sorted(looks, key=lambda name: looks[name]))
    modes = tuple(tuple(at.get((name, value)) for value in sizes) for name in names)
    return Grid(size, others, sizes, names, modes)


def _mode(row: Row, caches: bool) -> str:
    return f"{phrases.mode(row)}, {phrases.cache(row)}" if caches else phrases.mode(row)
