"""Figure of warm and cold data: what each mode takes and gains with either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.derive.select import values_of
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import cells, columns, numbers, phrases, style
from modescope.analysis.format.columns import Table
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped, required

Pair = tuple[Row, Row]
"""The rows of a mode with warm data and with cold data or weights."""

SAME = ("mode", "apart", "calls_pad", "dtype", "baseline_mode", "baseline_dtype", "compile_cache")


def pairs(rows: pd.DataFrame) -> list[Pair]:
    """Returns the charted rows of one work that have evicted data, each with that of warm data."""
    charted = theme.charted(rows)
    warm = {values_of(row, SAME): row for row in charted if row["data"] is None}
    cold = [row for row in charted if row["data"] is not None]
    return [(warm[key], row) for row in cold if (key := values_of(row, SAME)) in warm]


def _draw(rows: pd.DataFrame) -> Figure | None:
    both_of = {cold["run_id"]: (warm, cold) for warm, cold in pairs(rows)}
    if not both_of:
        return None
    warm, cold = zip(*both_of.values(), strict=True)
    panels = [
        panel
        for data, members in grouped((phrases.data(row), row) for row in cold).items()
        for panel in theme.panels(data.capitalize(), members, cells.speedup)
    ]
    figure, grid = theme.sheet(panels, phrases.work(warm[0]), len(cold), "Speedup with both")
    for (latency, speedup), panel in zip(grid, panels, strict=True):
        members = [both_of[row["run_id"]] for row in panel.rows]
        seconds = [
            tuple(required(row["latency_paired_s"]).value for row in both) for both in members
        ]
        scale, unit = numbers.time_unit(max(map(max, seconds)))
        _both(latency, panel.rows, [tuple(s / scale for s in both) for both in seconds])
        theme.linear_ticks(latency, max(map(max, seconds)) / scale, unit, most=5)
        ratios = [tuple(required(row["speedup"]).value for row in both) for both in members]
        _both(speedup, panel.rows, ratios)
        theme.linear_ticks(speedup, max(map(max, ratios)), "× over the baseline", most=5)
        speedup.axvline(1, color=style.INK, linewidth=0.8)
    look: dict[str, Any] = {"color": style.INK, "linestyle": "none", "markersize": 6}
    marks = (("warm: data as the last call left them", "none"), ("cold", style.INK))
    theme.legend(
        figure, [Line2D([], [], marker="o", label=name, mfc=fill, **look) for name, fill in marks]
    )
    return figure


def _both(axes: Axes, rows: Sequence[Row], ends: Sequence[Sequence[float]]) -> None:
    """Draws a ring at each first end, a marker at each second, and a line between them."""
    for place, (row, (warm, cold)) in enumerate(zip(rows, ends, strict=True)):
        colour = style.family(row).colour
        axes.plot([warm, cold], [place, place], color=colour, linewidth=1.6)
        axes.plot(warm, place, "o", mfc="none", mec=colour, mew=1.6, markersize=6.5)
        axes.plot(cold, place, style.marker(row), color=colour, markersize=6.5)


def _table(rows: pd.DataFrame) -> Table:
    titles = ("warm latency [95 %]", "cold latency [95 %]", "warm speedup [95 %]",
              "cold speedup [95 %]", "evicted", "read from memory")  # fmt: skip
    lines = [
        (
            *(column.cell(cold) for column in columns.NAMING),
            phrases.data(cold),
            *(cells.latency(row) for row in (warm, cold)),
            *(cells.speedup(row) for row in (warm, cold)),
            numbers.size(cold["evicted_bytes"]),
            numbers.duration(cold["cold_read_s"]),
        )
        for warm, cold in pairs(rows)
    ]
    naming = (*(column.title for column in columns.NAMING), "data")
    return Table("Warm and cold", (*naming, *titles), len(naming), tuple(lines))


COLD = FigureKind(
    "cold",
    "Warm and cold data",
    "latency and speedup of each mode with warm and with cold data, a row per mode",
    "The ring is a call whose data the last call left in the cache, the marker one whose data are "
    "read from memory; the numbers are speedups with cold data. A whole model in a loop is warm if "
    "it fits; a block of many is cold.",
    _draw,
    _table,
)
