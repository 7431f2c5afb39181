"""Speedups with their intervals, by mode: the answer."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import table_of
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import AGAINST, SPEEDUP, VERDICT, Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.stats.estimates import MARGIN

CAPTION = (
    "Right of 1× is faster than the baseline; the band is ±1 %, the line through a marker its 95 % "
    "interval. A filled marker is faster or slower, a hollow one neither."
)
_ENDS = ("speedup", "speedup_ci_low", "speedup_ci_high")
_COLUMNS = (
    AGAINST,
    SPEEDUP,
    VERDICT,
    Column("smallest detectable change", lambda row: numbers.percent(row["mde"]), optional=True),
    Column("rounds", lambda row: numbers.calls(row["rounds"])),
)


def draw(section: pd.DataFrame) -> Figure | None:
    """A panel per precision of a SECTION, a row per mode; None without a trusted row."""
    rows = theme.charted(section)
    if not rows:
        return None
    panels = theme.panels("Speedup", rows, _numbers, against=True)
    figure, grid = theme.sheet(panels, phrases.work(rows[0]), theme.beyond(len(rows), panels))
    for (axes,), panel in zip(grid, panels, strict=True):
        _points(axes, panel.rows)
        round_ones = [*theme.BINARY, *theme.EVEN]
        theme.log_ticks(axes.xaxis, theme.room(panels), lambda value: f"{value:g}×", round_ones)
    return figure


def _numbers(row: Row) -> str:
    return f"{cells.speedup(row)} {row['verdict']}"


def _points(axes: Axes, rows: Sequence[Row]) -> None:
    """Markers and intervals: the median and the range of low, value and high."""
    ends = [row[name] for row in rows for name in _ENDS]
    places = [place for place in range(len(rows)) for _ in _ENDS]
    axes.set_xscale("log")
    axes.axvspan(1 / (1 + MARGIN), 1 + MARGIN, color=style.FADED, alpha=0.35, linewidth=0)
    axes.axvline(1, color=style.INK, linewidth=0.8)
    sns.pointplot(
        x=ends, y=places, hue=places, orient="h", native_scale=True, estimator="median",
        errorbar=("pi", 100), palette=[style.family(row).colour for row in rows],
        markers=[style.marker(row) for row in rows], linestyles="none", markersize=6,
        markeredgewidth=1.2, err_kws={"linewidth": 2}, legend=False, ax=axes,
    )  # fmt: skip
    for row, line in zip(rows, (one for one in axes.lines if one.get_marker() in style.CHARACTERS),
                         strict=True):  # fmt: skip
        if row["verdict"] not in ("faster", "slower"):
            line.set_markerfacecolor("none")
    low, high = min(*ends, 0.96), max(*ends, 1.04)
    beyond = (high / low) ** 0.05  # room for half a marker
    axes.set(xlim=(low / beyond, high * beyond), ylim=(len(rows) - 0.5, -0.5), xlabel="", ylabel="")


def table(section: pd.DataFrame) -> Table:
    """The speedup of each mode with its interval, verdict and smallest detectable change."""
    return table_of("Speedups", section, _COLUMNS)
