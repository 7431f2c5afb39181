"""Finds steps in speedups over several studies: `python -m analysis.trend SET SET SET SET ...`.

The sets are studies in the order of their code. For each row the series of its times against eager
is split in two where the two levels differ most. Nothing fails: the exit status is 0 or, if nothing
can be compared, 2.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from modescope.analysis import cli, where
from modescope.analysis.changes import split, welch
from modescope.analysis.compare import words
from modescope.analysis.compare.command import margin_of
from modescope.analysis.compare.rules import differences, sides
from modescope.analysis.compare.rules.sides import Pair, Side
from modescope.analysis.compare.rules.timing import against_eager
from modescope.analysis.format import numbers
from modescope.analysis.format.paragraphs import beneath, paragraph
from modescope.analysis.load import located
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import program
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
    """The best split of a series, which chance does not explain and which matters."""

    series: Series
    since: int  # place of the first set after it
    change: Estimate  # relative, more is slower


def every_series(sets: Sequence[Side]) -> Iterator[Series]:
    """The series of each row that was timed, by the order of its first appearance."""
    tables = [sides.by_row(one.processes) for one in sets]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    shown = [next(table[key][0] for table in tables if key in table) for key in keys]
    for key, row in zip(keys, sides.named(shown), strict=True):
        timed = {place: against_eager(table.get(key, ())) for place, table in enumerate(tables)}
        found = {place: side for place, side in timed.items() if side is not None}
        if found:
            values = tuple(float(side.values.mean()) for side in found.values())
            variance = float(np.mean([_variance(side) for side in found.values()]))
            yield Series(Pair(row, (), ()), tuple(found), values, variance)


def _variance(side: welch.Side) -> float:
    """Of the mean of the processes."""
    between = float(side.values.var(ddof=1)) if side.processes > 1 else 0.0
    return max(between, float((side.within**2).mean())) / side.processes


def step(one: Series, rows: int, margin: float) -> Step | None:
    """The step of a series, of `rows` that are looked at; `margin` is a logarithm."""
    best = split.best(np.array(one.values), one.variance)
    value, low, high = map(float, (best.change.value, best.change.low, best.change.high))
    is_chance = float(best.strength) <= split.threshold(len(one.values), rows)
    if is_chance or max(low, -high) <= margin:
        return None
    return Step(one, one.places[int(best.before)], Estimate(*map(math.expm1, (value, low, high))))


def text(
    sets: Sequence[Side], names: Sequence[str], margin: float, allowed: Collection[str]
) -> str:
    """The sentence, a line per row with a step, and what differs there.

    UsageError if neighbouring sets are not comparable, or no row was timed in enough sets.
    """
    differing = [differences.found(sides.matched(old, new)) for old, new in pairwise(sets)]
    for each in differing:
        differences.check(each, allowed)
    every = list(every_series(sets))
    long = [one for one in every if len(one.values) >= split.SHORTEST]
    if not long:
        raise UsageError(
            f"no row was timed in {split.SHORTEST} sets or more: a step needs {split.LEAST} before "
            f"and {split.LEAST} after it; got {len(sets)} sets"
        )
    found = [step(one, len(long), welch.log_margin(margin)) for one in long]
    steps = sorted(filter(None, found), key=lambda step: -abs(step.change.value))
    kinds = Counter("slower" if step.change.value > 0 else "faster" for step in steps)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    rows, over = numbers.counted(len(long), "row", "rows"), f"over {len(sets)} sets"
    sentence = f"Steps in {len(steps)} of {rows} {over}: {counts}"
    if not steps:
        sentence = f"No step beyond {numbers.percent(margin)} found in {rows} {over}"
    if short := len(every) - len(long):
        were = numbers.counted(short, "row was", "rows were")
        sentence += f"; {were} timed in fewer than {split.SHORTEST} sets"
    lines = paragraph(f"{sentence}.")
    for one in steps:
        lines += paragraph(
            f"{words.change(one.change)} since {names[one.since]}: {one.series.pair.name}, "
            f"{one.series.pair.work}"
        )
    for place in sorted({one.since for one in steps}):
        lines += [f"what differs between {names[place - 1]} and {names[place]}"]
        changes = [f"{one.column} {one.old} → {one.new}" for one in differing[place - 1]]
        lines += [line for each in changes or [words.SAME] for line in beneath(each)]
    return "\n".join(lines)


class _Parser(cli.Parser):
    """Reads the options of several studies."""

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        known, surplus = self.parse_known_args(arguments)
        self.check_surplus(known, surplus, known.sets)
        if len(known.sets) < split.SHORTEST:
            raise UsageError(
                f"expected {split.SHORTEST} studies or more, got {len(known.sets)}: a step needs "
                f"{split.LEAST} before and {split.LEAST} after it; compare two with "
                f"`{program('analysis.compare')} OLD NEW`"
            )
        return known


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = _Parser(
        prog=program("analysis.trend"),
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", metavar="SET", nargs="*", type=located, help="folder of a study")
    parser.add_argument(
        "--margin", metavar="P", default="1%", help="step that nobody minds (default: 1%%)"
    )
    differences.add_option(parser)
    where.add_option(parser)

    def body() -> None:
        options = parser.read(arguments)
        allowed = differences.names_of(options.allow)
        folders = {f"SET {place}": folder for place, folder in enumerate(options.sets, start=1)}
        read = sides.read_all(folders, options.where, allowed)
        margin = margin_of("--margin", options.margin)
        print(text(read, [folder.name for folder in options.sets], margin, allowed))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
