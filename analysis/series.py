"""Rows that differ in one size only: how latency and overhead grow with it, for each mode."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise

import pandas as pd

from analysis import bounds, style, words
from analysis.bounds import Overhead, overhead_s
from analysis.rows import FAMILY, parts, trusted
from analysis.words import Row
from bench import stats
from bench.records import canonical_json
from bench.stats import Estimate

MIN_SIZES = 3  # two points have a line through them whatever the truth is
CHAINS = ("ops",)  # sizes that count operators: overhead is paid for each of them


@dataclass(frozen=True)
class Crossing:
    """Where overhead is as long as what it is held against (bounds.Overhead): at which size.

    `after` and `before` are the nearest sizes on either side at which the intervals leave no doubt
    which side it is; None where none does.
    """

    size: float
    latency_s: float
    falling: bool  # whether overhead is longer below this size, and shorter above
    after: int | None
    before: int | None


@dataclass(frozen=True)
class Line:
    """One mode at one precision, over the sizes of a series."""

    name: str
    rows: tuple[Row, ...]  # in the order of the sizes
    sizes: tuple[int, ...]
    slope: Estimate | None  # of the overhead, seconds per unit of the size
    crossing: Crossing | None
    look: int = 0  # how many lines before it look as its mode does


@dataclass(frozen=True)
class Series:
    """Trusted rows of one work that differ in `size`, and in nothing else of their shape."""

    size: str  # batch, ops, ...
    others: str  # the sizes that are equal in all, canonical JSON
    lines: tuple[Line, ...]  # each over MIN_SIZES sizes at least

    @property
    def overhead(self) -> Overhead:
        """What counts as overhead on the device of all its rows."""
        return bounds.overhead(self.lines[0].rows[0])

    @property
    def is_chain(self) -> bool:
        """Whether the size counts operators, so that a slope is a cost per operator."""
        return self.size in CHAINS

    @property
    def unit(self) -> str:
        """One of what the size counts: `op`."""
        return self.size.removesuffix("s")


def series(rows: pd.DataFrame) -> list[Series]:
    """The series among the trusted ones of `rows`, all of one FAMILY."""
    return [
        Series(size, others, lines)
        for (size, others), members in _by_varying(words.as_rows(trusted(rows))).items()
        if (lines := _lines(size, members))
    ]


def by_slope(chain: Series) -> list[tuple[Line, Estimate]]:
    """The lines whose slope is known, the flattest first."""
    known = [(line, line.slope) for line in chain.lines if line.slope is not None]
    return sorted(known, key=lambda pair: pair[1].value)


def families(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """`rows` split into those of one work on one machine, whatever the size."""
    return list(parts(rows, FAMILY))


def _by_varying(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """For each size and each choice of the others: the rows with that choice."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        sizes = json.loads(row["shape"])
        for size in sizes:
            others = {name: value for name, value in sizes.items() if name != size}
            found.setdefault((size, canonical_json(others)), []).append(row)
    return found


def _lines(size: str, rows: Sequence[Row]) -> tuple[Line, ...]:
    """A line for each variant that was measured at enough sizes."""
    variants: dict[tuple[str, ...], list[Row]] = {}  # by what may set them apart
    for row in rows:
        names = (words.mode(row), row["dtype"], f"against {words.baseline(row)}",
                 f"with a {row['compile_cache']} cache")  # fmt: skip
        variants.setdefault(names, []).append(row)
    _, *others = zip(*variants, strict=True)  # the mode is always named
    told = [True, *(len(set(names)) > 1 for names in others)]
    lines = []
    for parts_of_name, members in variants.items():
        line = _line(" ".join(compress(parts_of_name, told)), size, members)
        if len(set(line.sizes)) >= MIN_SIZES:
            lines.append(line)
    return tuple(_with_looks(lines))


def _with_looks(lines: Sequence[Line]) -> Iterator[Line]:
    """Lines of one mode, at another precision or with another option, differ in their look."""
    drawn: Counter[tuple[str, str]] = Counter()
    for line in lines:
        looks = style.appearance(line.rows[0])
        yield replace(line, look=drawn[looks])
        drawn[looks] += 1


def _line(name: str, size: str, rows: Sequence[Row]) -> Line:
    placed = sorted(((json.loads(row["shape"])[size], row) for row in rows), key=lambda p: p[0])
    sizes, ordered = tuple(place for place, _ in placed), tuple(row for _, row in placed)
    known = [(float(place), seconds) for place, row in placed if (seconds := overhead_s(row))]
    slope = stats.slope([place for place, _ in known], [seconds for _, seconds in known])
    return Line(name, ordered, sizes, slope, _crossing(placed))


def _crossing(placed: Sequence[tuple[int, Row]]) -> Crossing | None:
    """By interpolation of logarithms between neighbouring sizes.

    None where the longer of both changes never or repeatedly, or where one of them is unknown.
    """
    excess = [known for _, row in placed if (known := bounds.excess(row)) is not None]
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
        _between(row["latency_s"], next_row["latency_s"], share),
        falling,
        max(after, default=None),
        min(before, default=None),
    )


def _between(start: float, end: float, share: float) -> float:
    """The point that lies `share` of the way from `start` to `end` on a logarithmic axis."""
    return math.exp(math.log(start) + share * math.log(end / start))
