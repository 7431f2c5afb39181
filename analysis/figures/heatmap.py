"""Speedups by mode and size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from modescope.analysis.derive.series import Grid
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import Panel
from modescope.analysis.format import cells, numbers, phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table

CAPTION = (
    "Purple is faster than the baseline, orange slower, white 1×; bold numbers are faster or "
    "slower beyond ±1 %."
)
MOST_PANELS, MOST_SIZES = 4, 9  # per figure; per panel, as more leave no room for numbers
STRONGEST = 3.0  # times faster or slower at which the colour saturates


def draw(grids: Sequence[Grid]) -> Figure | None:
    """A panel for each grid of one work; None without any."""
    if not grids:
        return None
    shown = ordered(grids)[:MOST_PANELS]
    panels = [
        Panel(_title(grid), [grid.first] * len(grid.names), grid.names, [""] * len(grid.names))
        for grid in shown
    ]
    more = theme.beyond(sum(len(grid.names) for grid in grids), panels)
    figure, lines = theme.sheet(panels, phrases.work_at(grids[0].first, "{}"), more)
    for (axes,), grid in zip(lines, shown, strict=True):
        _cells(axes, grid)
    return figure


def ordered(grids: Sequence[Grid]) -> list[Grid]:
    """Those of the baseline's precision first."""
    return sorted(grids, key=lambda grid: grid.first["dtype"] != grid.first["baseline_dtype"])


def _title(grid: Grid) -> str:
    others = f", {phrases.sizes(grid.others)}" if grid.others != "{}" else ""
    return f"Speedup over {grid.size}, {phrases.contest(grid.first)}{others}"


def _cells(axes: Axes, grid: Grid) -> None:
    places = _places(len(grid.sizes))
    rows = [[mode[place] for place in places] for mode in grid.modes]
    values = np.array([[row["speedup"] if row else np.nan for row in line] for line in rows])
    names = axes.get_yticklabels()
    sns.heatmap(
        values, norm=LogNorm(1 / STRONGEST, STRONGEST), cmap="PuOr", annot=True, fmt=".2f",
        annot_kws={"size": theme.SMALL}, cbar=False, linewidths=0.8, linecolor="none", ax=axes,
        xticklabels=[grid.sizes[place] for place in places],
        yticklabels=[name.get_text() for name in names],
    )  # fmt: skip
    for text, row in zip(axes.texts, (row for line in rows for row in line if row), strict=True):
        text.set_fontweight("bold" if row["verdict"] in ("faster", "slower") else "normal")
    axes.tick_params(axis="y", rotation=0)
    axes.set_xlabel(grid.size)


def _places(count: int) -> list[int]:
    """The sizes to draw: all, or MOST_SIZES evenly spread ones including both ends."""
    if count <= MOST_SIZES:
        return list(range(count))
    return [round(n * (count - 1) / (MOST_SIZES - 1)) for n in range(MOST_SIZES)]


def table(grids: Sequence[Grid]) -> Table:
    """Speedups by mode and size, all grids of one work in one table."""
    sizes = sorted({size for grid in grids for size in grid.sizes})
    lines = []
    for grid in ordered(grids):
        contest = ", ".join(filter(None, (phrases.contest(grid.first), phrases.sizes(grid.others))))
        for name, mode in zip(grid.names, grid.modes, strict=True):
            at = dict(zip(grid.sizes, mode, strict=True))
            lines.append((name, contest, *(_speedup(at.get(size)) for size in sizes)))
    titles = ("mode", "comparison", *(f"{grids[0].size} {size}" for size in sizes))
    return Table("Speedups by size", titles, 2, tuple(lines))


def _speedup(row: Row | None) -> str:
    return numbers.UNKNOWN if row is None else cells.speedup(row)
