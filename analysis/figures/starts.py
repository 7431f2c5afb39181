"""Figure of new processes from their start to the first right result, cut by what they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import median
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.derive.starts import REST, phases_s
from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import Look, stacked
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import DTYPE, Column, Table, table_of
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import Estimate, ends

_LOOKS = {
    "import": Look("imports", "#b6bec7"),
    "load": Look("loading", "#5b6570"),
    "dynamo": Look("Dynamo", "#5357b8"),
    "inductor": Look("Inductor", "#a6409a"),
    "probe": Look("tests of the processor", "#d55e00"),
    "kernels": Look("kernels", "#c29b2c"),
    "run": Look("first run", "#009e73"),
    REST: Look("unexplained", None, "////"),
}


def started(section: pd.DataFrame) -> dict[str, Paired]:
    """Returns the starts of a section's charted rows by run id, the soonest first.

    All are at one pace of the machine: the ratio to the baseline's starts, which took turns with
    the row's, times the median of the baseline's starts beside all rows.
    """
    rows = [row for row in theme.charted(section) if phases_s(row)]
    pairs = [(row, ratio) for row in rows if (ratio := row["start_ratio"]) is not None]
    if not pairs:
        return {}
    starts = (required(row["baseline_starts_s"]) for row, _ in pairs)
    usual_s = median(chain.from_iterable(starts))
    order = sorted(pairs, key=lambda pair: pair[1].value)
    return {row["run_id"]: Paired(row, _times(ratio, usual_s)) for row, ratio in order}


@dataclass(frozen=True)
class Paired:
    """A row, and its start at the pace that the rows of its section have in common."""

    row: Row
    start_s: Estimate

    def phases_s(self) -> dict[str, float]:
        """Returns the seconds of each phase, at that pace."""
        part = self.start_s.value / required(self.row["start_s"]).value
        return {name: seconds * part for name, seconds in phases_s(self.row).items()}


def _times(ratio: Estimate, seconds: float) -> Estimate:
    if ratio.low is None or ratio.high is None:
        return Estimate(ratio.value * seconds, None, None)
    return Estimate(ratio.value * seconds, ratio.low * seconds, ratio.high * seconds)


def _draw(section: pd.DataFrame) -> Figure | None:
    starts = started(section)
    if not starts:
        return None
    rows = [start.row for start in starts.values()]

    def start_s(row: Row) -> Estimate:
        return starts[row["run_id"]].start_s

    named = [
        replace(panel, names=[phrases.rung(row) for row in panel.rows])
        for panel in theme.panels(
            "From the start to the first result",
            rows,
            lambda row: numbers.duration_interval(start_s(row)),
        )
    ]
    whisker: dict[str, Any] = {"color": style.INK, "linewidth": 1.3}
    figure, drawn = stacked(
        named,
        [[starts[row["run_id"]].phases_s() for row in panel.rows] for panel in named],
        _LOOKS,
        rows,
        further=[Line2D([], [], label="95 % interval", **whisker)],
    )
    for (axes, scale), panel in zip(drawn, named, strict=True):
        for place, row in enumerate(panel.rows):
            reach = [end / scale for end in ends(start_s(row))]
            axes.plot(reach, [place] * 2, **whisker, solid_capstyle="butt", zorder=3)
        longest = max(ends(start_s(row))[1] for row in panel.rows)
        theme.linear_ticks(axes, longest / scale, numbers.time_unit(longest)[1])
    return figure


def undecided(row: Row, others: Sequence[Row]) -> str:
    """Names those of `others` whose interval, as ratio to the baseline, overlaps the row's.

    Which of two such rows starts sooner is open.
    """
    mine, names = row["start_ratio"], []
    if mine is None or mine.low is None:
        return numbers.UNKNOWN
    for other in others:
        theirs = other["start_ratio"]
        if other is row or theirs is None or theirs.low is None:
            continue
        overlap = ends(theirs)[0] <= ends(mine)[1] and ends(mine)[0] <= ends(theirs)[1]
        names += [phrases.rung(other)] if overlap else []
    return "; ".join(names) or "none"


def _table(section: pd.DataFrame) -> Table:
    starts = started(section)
    rows = [start.row for start in starts.values()]
    return table_of("Cold starts", rows, (Column("starts", phrases.rung), DTYPE), (
        Column("first result after [95 %]",
               lambda row: numbers.duration_interval(starts[row["run_id"]].start_s)),
        Column("as long as the baseline's [95 %]",
               lambda row: numbers.factor_interval(row["start_ratio"]), optional=True),
        Column("undecided against", lambda row: undecided(row, rows)),
        Column("filled or built in", lambda row: numbers.duration(row["fill_s"]), optional=True),
        Column("cache on disk", lambda row: numbers.size(row["cache_bytes"]), optional=True),
        Column("shipped", lambda row: numbers.size(row["shipped_bytes"]), optional=True),
        Column("later calls [95 %]", cells.speedup),
    ))  # fmt: skip


STARTS = FigureKind(
    "starts",
    "Cold starts",
    "bars of new processes until their first right result, a row per state of the caches",
    "A bar is a new process until its first right result, cut by what it does: means of all "
    "processes, in the order of the legend. The line at its end is the interval of the whole. The "
    "machine's pace changes between rows, so times are ratios to the baseline's starts, which took "
    "turns with the row's, times the median of all of these.",
    _draw,
    _table,
)
