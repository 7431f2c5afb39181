"""Latencies with intervals and tails, by mode."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive import replicates
from modescope.analysis.derive.select import trusted
from modescope.analysis.figures.draw.canvas import MOST_ROWS, and_more
from modescope.analysis.figures.draw.dots import Dot, dots
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import charted, table_of
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.columns import AT_FULL_PACE, SLOWEST_PACE, Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.stats.intervals import of_clock

_FOOT = "left is faster; marker: latency with its interval; vertical tick: 95th percentile of calls"
_COLUMNS = (
    Column("latency [95 %]", cells.latency),
    Column("p95", lambda row: numbers.duration(row["latency_p95_s"]), optional=True),
    SLOWEST_PACE,
    AT_FULL_PACE,
)

STEADY = 0.95  # of the fastest pace: what single rounds differ by on a quiet machine


def draw(section: pd.DataFrame) -> Figure | None:
    """A point with interval and tail for each row of a SECTION; None without a trusted row."""
    rows = charted(section)
    if not rows:
        return None
    points = [_dot(row) for row in rows[:MOST_ROWS]]
    foot = and_more(_FOOT, len(rows) - len(points))
    return dots(points, "Latency of a call", f"{foot}\n{phrases.work(rows[0])}")


def _dot(row: Row) -> Dot:
    tail_s = row["latency_p95_s"]
    if tail_s is not None:
        tail_s *= row["latency_paired_s"] / row["latency_s"]
    return Dot(phrases.variant(row), row, of_clock(row, "latency_paired"), tail_s)


def caption(section: pd.DataFrame) -> str | None:
    """The mode with the shortest latency, and overlapping ones; None without a trusted row."""
    rows = phrases.as_rows(trusted(section))
    if not rows:
        return None
    best = min(rows, key=lambda row: row["latency_paired_ci_high_s"])
    if len(rows) == 1:
        return f"Only {phrases.variant(best)} is shown: {cells.latency(best)}."
    end_s, others = best["latency_paired_ci_high_s"], [row for row in rows if row is not best]
    close = [phrases.variant(row) for row in others if row["latency_paired_ci_low_s"] <= end_s]
    named = f"overlapping intervals: {phrases.listed(close)}" if close else ""
    overlap = named or "no other interval overlaps"
    shortest = f"{phrases.variant(best)}, {cells.latency(best)}"
    return f"Shortest: {shortest}; {overlap}. {_caution(rows)}{_pace(rows)}"


def _caution(rows: Iterable[Row]) -> str:
    if all(row["replicates"] >= replicates.ENOUGH for row in rows):
        return "Intervals cover the spread between processes, so they hold for a new process too."
    return (
        "Each is the baseline's latency ÷ the paired speedup, so the intervals are those of the "
        "speedups: they hold within the measured processes."
    )


def _pace(rows: Iterable[Row]) -> str:
    """How slow the machine was at times; empty where it kept its pace, or where that is unknown."""
    on_cpu = (row for row in rows if not phrases.on_cuda(row))
    slowest = min((row["pace_slowest"] or 1.0 for row in on_cpu), default=1.0)
    if slowest >= STEADY:
        return ""
    return (
        f" At times the machine ran at {numbers.whole_percent(slowest)} of its pace; the table also"
        " has latencies at full pace."
    )


def table(section: pd.DataFrame) -> Table:
    """The latency of each mode with its interval, its 95th percentile, and the machine's pace."""
    return table_of("Latencies", section, _COLUMNS)


FIGURE = FigureKind(
    "latency", "Latency", "latencies with intervals and 95th percentiles, a row per mode",
    draw, caption, table,
)  # fmt: skip
