"""Finds steps in speedups over several studies: `modescope trend SET SET SET SET ...`.

Each SET is a study; give them in the order of the code that they measured. For each row, the series
of its times relative to eager is split where the two levels differ most. A series without a step
has a best split too, so a split counts only if it exceeds what chance makes of the best of so many
splits. A step is no failure: the exit status is 0, or 2 if nothing can be compared.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from modescope.analysis import cli
from modescope.analysis.compare import arguments

if __name__ == "__main__":
    cli.check(arguments.trend(__doc__))

import numpy as np

from modescope.analysis import changes
from modescope.analysis.changes import LogChange, LogTimes, Numbers
from modescope.analysis.compare import differences, sides, wording
from modescope.analysis.compare.sides import Pair, StudySide
from modescope.analysis.compare.timing import against_eager
from modescope.analysis.format import numbers
from modescope.analysis.format.phrases import indented_paragraph, paragraph
from modescope.bench.records.errors import UsageError
from modescope.bench.stats.estimates import Estimate, Verdict, student_quantile

LEAST = 2
"""The least number of sets before and after a step, so that one unusual set is no step."""

SHORTEST = 2 * LEAST

ALPHA = 0.05
"""The largest share of reports in which chance alone shows a step in any row."""


@dataclass(frozen=True)
class History:
    """The times of a row relative to eager's in several studies, here called sets.

    `values` are ln(time ÷ eager's time). There is one for each set that timed the row, and `places`
    are the positions of these sets on the command line, from 0.
    """

    pair: Pair
    places: tuple[int, ...]  # of the sets
    values: tuple[float, ...]  # means over processes
    variance: float  # of such a mean, by the spread between its processes: a lower limit


@dataclass(frozen=True)
class Step:
    """The best split of a series, if it exceeds both the margin and what chance explains.

    `since` is the position, from 0, of the first set after it. `change` is relative: 0.02 if times
    became 2 % longer.
    """

    history: History
    since: int  # place of the first set after it
    change: Estimate  # relative, more is slower


@dataclass(frozen=True)
class Splits:
    """The best split of each series; the arrays have an element per series.

    `before` is the number of values before the split.
    """

    before: Numbers  # sets before it
    change: LogChange
    strength: Numbers  # the size of the change in standard errors


def best_split(series: Numbers, floor: float = 0.0) -> Splits:
    """Splits each series in two, where the levels before and after differ most (largest |t|).

    A series lies along the last axis and has SHORTEST or more values. The spread is pooled over
    both levels; `floor` is the least variance of a value.
    """
    count = series.shape[-1]

    def split(place: int) -> tuple[Numbers, Numbers]:
        left, right = series[..., :place], series[..., place:]
        squares = left.var(-1) * place + right.var(-1) * (count - place)
        variance = np.maximum(squares / (count - 2), floor) * (1 / place + 1 / (count - place))
        return right.mean(-1) - left.mean(-1), np.sqrt(variance)

    splits = map(split, range(LEAST, count - LEAST + 1))
    values, errors = (np.stack(parts, -1) for parts in zip(*splits, strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        strengths = np.nan_to_num(np.abs(values) / errors, nan=0.0, posinf=np.inf)
    best = strengths.argmax(-1)[..., None]
    value, error, strength = (
        np.take_along_axis(array, best, -1)[..., 0] for array in (values, errors, strengths)
    )
    change = LogChange(value, error, np.full_like(value, count - 2))
    return Splits(best[..., 0] + float(LEAST), change, strength)


def threshold(count: int, rows: int) -> float:
    """Returns the strength that a split must exceed to be no chance.

    A report has `rows` series of `count` values each. Of a series without a step and with normal
    values, the strength of each split is |t| with `count` - 2 degrees of freedom. Bonferroni's
    bound over all splits of all series makes chance exceed it in at most 5 % of reports (ALPHA): in
    4 to 5 % for up to twelve values, and in 2 % for one series of 52, whose splits are alike.
    """
    splits = count - SHORTEST + 1
    return student_quantile(count - 2, ALPHA / (splits * rows))


def histories(sets: Sequence[StudySide]) -> Iterator[History]:
    """Yields the History of each row that was timed, in the order in which the rows first appear.

    `sets` are the studies, in the order of the code that they measured.
    """
    tables = [sides.group_by_row(side.processes) for side in sets]
    keys = list(dict.fromkeys(key for table in tables for key in table))
    shown = [next(table[key][0] for table in tables if key in table) for key in keys]
    for key, row in zip(keys, sides.distinguish(shown), strict=True):
        timed = {place: against_eager(table.get(key, ())) for place, table in enumerate(tables)}
        found = {place: side for place, side in timed.items() if side is not None}
        if found:
            values = tuple(float(side.values.mean()) for side in found.values())
            variance = float(np.mean([_variance(side) for side in found.values()]))
            yield History(Pair(row, (), ()), tuple(found), values, variance)


def _variance(side: LogTimes) -> float:
    between = float(side.values.var(ddof=1)) if side.processes > 1 else 0.0
    return max(between, float((side.within**2).mean())) / side.processes


def step(history: History, rows: int, margin: float) -> Step | None:
    """Returns the step of a series; None if chance explains it, or if it is within `margin`.

    `rows` is the number of series that are examined, and `margin` is a logarithm.
    """
    best = best_split(np.array(history.values), history.variance)
    value, low, high = map(float, (best.change.value, best.change.low, best.change.high))
    is_chance = float(best.strength) <= threshold(len(history.values), rows)
    if is_chance or max(low, -high) <= margin:
        return None
    return Step(
        history, history.places[int(best.before)], Estimate(*map(math.expm1, (value, low, high)))
    )


def text(
    sets: Sequence[StudySide], names: Sequence[str], margin: float, allowed: Collection[str]
) -> str:
    """Returns the report: a sentence, a line per row with a step, and what differs at each step.

    `sets` are the studies, with their `names`. A change within `margin` (0.01: 1 %) is no step.
    `allowed` names the differences between neighbouring sets that do not forbid to compare them.
    Raises UsageError for other such differences, or if no row was timed in enough sets.
    """
    differing = [
        differences.find_differences(sides.pair_rows(old, new)) for old, new in pairwise(sets)
    ]
    for between in differing:
        differences.check(between, allowed)
    every = list(histories(sets))
    long = [history for history in every if len(history.values) >= SHORTEST]
    if not long:
        raise UsageError(
            f"no row was timed in {SHORTEST} of {len(sets)} sets: a step needs {LEAST} on each side"
        )
    found = [step(history, len(long), changes.log_margin(margin)) for history in long]
    steps = sorted(filter(None, found), key=lambda step: -abs(step.change.value))
    kinds = Counter(Verdict.SLOWER if step.change.value > 0 else Verdict.FASTER for step in steps)
    counts = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    rows = f"{numbers.counted(len(long), 'row', 'rows')} over {len(sets)} sets"
    sentence = f"Steps in {len(steps)} of {rows}: {counts}"
    if not steps:
        sentence = f"No step beyond {numbers.percent(margin)} found in {rows}"
    if short := len(every) - len(long):
        were = numbers.counted(short, "row was", "rows were")
        sentence += f"; {were} timed in fewer than {SHORTEST} sets"
    lines = paragraph(f"{sentence}.")
    for found_step in steps:
        pair = found_step.history.pair
        lines += paragraph(
            f"{wording.change(found_step.change)} since {names[found_step.since]}: "
            f"{pair.name}, {pair.work}"
        )
    for place in sorted({found_step.since for found_step in steps}):
        lines += [f"what differs between {names[place - 1]} and {names[place]}"]
        texts = [f"{named.column} {named.old} → {named.new}" for named in differing[place - 1]]
        lines += [line for said in texts or [wording.SAME] for line in indented_paragraph(said)]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = arguments.trend(__doc__)

    def body() -> None:
        options = parser.parse_args(words)
        if len(options.sets) < SHORTEST:
            raise UsageError(f"expected {SHORTEST} studies or more, got {len(options.sets)}")
        folders = {f"SET {place}": folder for place, folder in enumerate(options.sets, start=1)}
        read = sides.read_all(folders, options.where, options.allow)
        names = [folder.name for folder in options.sets]
        print(text(read, names, options.margin, options.allow))

    return cli.exit_status(body)


if __name__ == "__main__":
    sys.exit(main())
