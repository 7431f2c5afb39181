"""Rows that differ in one size only: the growth of latency and overhead with it, by mode."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise

import pandas as pd

from modescope.analysis.format import phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows import bottleneck
from modescope.analysis.rows.bottleneck import Overhead, overhead_s
from modescope.analysis.rows.select import FAMILY, parts, trusted
from modescope.bench.records.ids import canonical_json
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate

MIN_SIZES = 3  # a line always fits two points
CHAINS = ("ops",)  # sizes that count operators, each of which costs overhead


@dataclass(frozen=True)
class Crossing:
    """The size at which overhead equals its threshold (bottleneck.Overhead).

    `after` and `before` are the nearest sizes on either side that the intervals decide; None
    without such a size.
    """

    size: float
    latency_s: float
    falling: bool  # whether calls are bound by overhead below this size
    after: int | None
    before: int | None


@dataclass(frozen=True)
class Line:
    """One mode at one precision, over the sizes of a series."""

    name: str
    rows: tuple[Row, ...]  # by rising size
    sizes: tuple[int, ...]
    slope: Estimate | None  # of the overhead, seconds per unit of the size
    crossing: Crossing | None
    look: int = 0  # its number among lines with the same look


@dataclass(frozen=True)
class Series:
    """Trusted rows of one work whose shapes differ only in `size`."""

    size: str  # batch, ops, ...
    others: str  # the other sizes, equal in all rows; canonical JSON
    lines: tuple[Line, ...]  # each over at least MIN_SIZES sizes

    @property
    def overhead(self) -> Overhead:
        """The overhead on the device of its rows."""
        return bottleneck.overhead(self.lines[0].rows[0])

    @property
    def is_chain(self) -> bool:
        """Whether the size counts operators, so that a slope is a cost per operator."""
        return self.size in CHAINS

    @property
    def unit(self) -> str:
        """The unit that the size counts: `op`."""
        return self.size.removesuffix("s")


def series(rows: pd.DataFrame) -> list[Series]:
    """The series among the trusted ones of `rows`, all of one FAMILY."""
    return [
        Series(size, others, lines)
        for (size, others), members in _by_varying(phrases.as_rows(trusted(rows))).items()
        if (lines := _lines(size, members))
    ]


def by_slope(chain: Series) -> list[tuple[Line, Estimate]]:
    """The lines with a known slope, the flattest first."""
    known = [(line, line.slope) for line in chain.lines if line.slope is not None]
    return sorted(known, key=lambda pair: pair[1].value)


def families(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """`rows` split by work and machine, with all sizes of a work together."""
    return list(parts(rows, FAMILY))


def _by_varying(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """(size, values of the others) -> the rows that differ only in that size."""
    shapes = [(row, json.loads(row["shape"])) for row in rows]
    return phrases.grouped(
        ((size, canonical_json({n: v for n, v in sizes.items() if n != size})), row)
        for row, sizes in shapes
        for size in sizes
    )


def _lines(size: str, rows: Sequence[Row]) -> tuple[Line, ...]:
    """A line for each variant that was measured at enough sizes."""
    every = (_line(name, size, members) for name, members in variants(rows).items())
    return tuple(with_looks([line for line in every if len(set(line.sizes)) >= MIN_SIZES]))


def variants(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """One or more rows by the name of their variant: the mode, and in what else variants differ."""
    groups = phrases.grouped((_names(row), row) for row in rows)
    _, *others = zip(*groups, strict=True)  # the mode is always named
    named = [True, *(len(set(names)) > 1 for names in others)]
    return {" ".join(compress(names, named)): members for names, members in groups.items()}


def _names(row: Row) -> tuple[str, ...]:
    cache = f"with a {row['compile_cache']} cache"
    return phrases.mode(row), row["dtype"], f"against {phrases.baseline(row)}", cache


def with_looks(lines: Sequence[Line]) -> Iterator[Line]:
    """Numbers the lines of one mode with different precisions or options."""
    drawn: Counter[tuple[str, str]] = Counter()
    for line in lines:
        looks = style.appearance(line.rows[0])
        yield replace(line, look=drawn[looks])
        drawn[looks] += 1


def _line(name: str, size: str, rows: Sequence[Row]) -> Line:
    placed = sorted(((json.loads(row["shape"])[size], row) for row in rows), key=lambda p: p[0])
    sizes, ordered = tuple(place for place, _ in placed), tuple(row for _, row in placed)
    known = [(float(place), seconds) for place, row in placed if (seconds := overhead_s(row))]
    slope = estimates.slope([place for place, _ in known], [seconds for _, seconds in known])
    return Line(name, ordered, sizes, slope, _crossing(placed))


def _crossing(placed: Sequence[tuple[int, Row]]) -> Crossing | None:
    """The crossing, interpolated between logarithms of neighbouring sizes.

    None if the bound changes never or repeatedly, or is unknown at a size.
    """
    excess = [known for _, row in placed if (known := bottleneck.excess(row)) is not None]
    if len(excess) < len(placed):
        return None
    changes = [n for n, (a, b) in enumerate(pairwise(excess)) if (a > 0) != (b > 0)]
    if len(changes) != 1:
        return None
    (n,) = changes
    (size, row), (next_size, next_row) = placed[n : n + 2]
    share = excess[n] / (excess[n] - excess[n + 1])
    falling = excess[n] > 0
    sides = ("overhead", "work") if falling else ("work", "overhead")
    after = [size for size, row in placed[: n + 1] if row["bound_by"] == sides[0]]
    before = [size for size, row in placed[n + 1 :] if row["bound_by"] == sides[1]]
    return Crossing(
        _between(size, next_size, share),
        _between(row["latency_paired_s"], next_row["latency_paired_s"], share),
        falling,
        max(after, default=None),
        min(before, default=None),
    )


def _between(start: float, end: float, share: float) -> float:
    """The point that lies `share` of the way from `start` to `end` on a logarithmic axis."""
    return math.exp(math.log(start) + share * math.log(end / start))
