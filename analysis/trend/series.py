"""The series of each row over several studies, and the step in it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from modescope.analysis.changes import split, welch
from modescope.analysis.compare.rules import differences
from modescope.analysis.compare.rules.differences import Difference
from modescope.analysis.compare.rules.pairs import Pair, by_row, matched, named
from modescope.analysis.compare.rules.sides import Side
from modescope.analysis.compare.rules.timing import against_eager
from modescope.bench.records.errors import UsageError
from modescope.bench.stats.estimates import Estimate


@dataclass(frozen=True)
class Series:
    """Time against eager of a row (logarithms), in those sets that have it."""

    pair: Pair
    places: tuple[int, ...]  # of the sets
    values: tuple[float, ...]  # means over processes
    variance: float  # of such a mean, by the spread between its processes: a lower limit


@dataclass(frozen=True)
class Step:
    """The best split of a series; `is_real`: chance does not explain it, and it matters."""

    series: Series
    before: int  # values before it
    change: Estimate  # relative, more is slower
    is_real: bool

    @property
    def since(self) -> int:
        """The place of the first set after it."""
        return self.series.places[self.before]


@dataclass(frozen=True)
class Trend:
    """The steps of all rows that are long enough, and how many are not."""

    steps: tuple[Step, ...]
    short: int
    differences: tuple[tuple[Difference, ...], ...]  # between each set and the next


def trend(sets: Sequence[Side], margin: float, allowed: Collection[str]) -> Trend:
    """The steps over `sets`, in this order.

    UsageError if neighbours are not comparable, or if no row is in enough of them.
    """
    differing = [differences.found(matched(*both)) for both in pairwise(sets)]
    for each in differing:
        differences.check(each, allowed)
    every = _series(sets)
    long = [one for one in every if len(one.values) >= split.SHORTEST]
    if not long:
        raise UsageError(
            f"no row was timed in {split.SHORTEST} sets or more: a step needs {split.LEAST} before "
            f"and {split.LEAST} after it; got {len(sets)} sets"
        )
    steps = tuple(_step(one, len(long), margin) for one in long)
    return Trend(steps, len(every) - len(long), tuple(map(tuple, differing)))


def _series(sets: Sequence[Side]) -> list[Series]:
    """The series of every row that was timed, by the order of its first appearance."""
    tables = [by_row(one.processes) for one in sets]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    shown = [next(table[key][0] for table in tables if key in table) for key in keys]
    found = []
    for key, row in zip(keys, named(shown), strict=True):
        sides = {
            place: side
            for place, table in enumerate(tables)
            if (side := against_eager(table.get(key, ()))) is not None
        }
        if sides:
            values = tuple(float(side.values.mean()) for side in sides.values())
            variance = float(np.mean([_variance(side) for side in sides.values()]))
            found.append(Series(Pair(row, (), ()), tuple(sides), values, variance))
    return found


def _variance(side: welch.Side) -> float:
    """Of the mean of the processes."""
    between = float(side.values.var(ddof=1)) if side.processes > 1 else 0.0
    return max(between, float((side.within**2).mean())) / side.processes


def _step(one: Series, rows: int, margin: float) -> Step:
    found = split.best(np.array(one.values), one.variance)
    low, value, high = map(float, (found.change.low, found.change.value, found.change.high))
    beyond_chance = float(found.strength) > split.threshold(len(one.values), rows)
    matters = max(low, -high) > margin
    estimate = Estimate(*map(math.expm1, (value, low, high)))
    return Step(one, int(found.before), estimate, beyond_chance and matters)
