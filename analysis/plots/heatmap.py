"""Speedups by mode and size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import numbers, style, words
from analysis.grids import Grid
from analysis.plots.canvas import Entry, Panel, and_more, stacked
from analysis.words import Row

MOST_PANELS, MOST_SIZES = 4, 8  # of one figure; of one panel, as more leave no room for numbers
STRONGEST = 3.0  # times faster or slower, from where on the colour stays
_COLOURS = "PuOr"  # orange to purple, told apart with any colour vision (ColorBrewer)
_FOOT = (
    "speedup: purple is faster, orange slower, white 1×; bold: faster or slower beyond ±1 %; "
    "–: not measured or not charted"
)


def heatmap(found: Sequence[Grid]) -> Figure | None:
    """A panel for each grid of one work; None without any."""
    if not found:
        return None
    shown = found[:MOST_PANELS]
    panels = [Panel(_title(grid), _entries(grid)) for grid in shown]
    hidden = sum(len(grid.modes) for grid in found[MOST_PANELS:])
    foot = f"{and_more(_FOOT, hidden)}\n{words.work_at(found[0].first, '{}')}"
    with matplotlib.rc_context(style.RC):
        stack = stacked(panels, foot, bar=0.2)
        for axes, grid in zip(stack.axes, shown, strict=True):
            _draw(axes, grid, stack.thick)
    return stack.figure


def _title(grid: Grid) -> str:
    others = f", {words.sizes(grid.others)}" if grid.others != "{}" else ""
    return f"Speedup over {grid.size}, {words.contest(grid.first)}{others}"


def _entries(grid: Grid) -> list[Entry]:
    left_out = len(grid.sizes) - MOST_SIZES
    told = f"{left_out} sizes not drawn" if left_out > 0 else ""
    return [
        Entry(name, told, next(row for row in mode if row is not None))
        for name, mode in zip(grid.names, grid.modes, strict=True)
    ]


def _draw(axes: Axes, grid: Grid, thick: float) -> None:
    colours = matplotlib.colormaps[_COLOURS]
    places = _places(len(grid.sizes))
    for y, mode in enumerate(grid.modes):
        for x, place in enumerate(places):
            _cell(axes, x, y, mode[place], thick, colours)
    axes.set_xlim(0, len(places))
    axes.set_xticks([x + 0.5 for x in range(len(places))], [f"{grid.sizes[n]}" for n in places])
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)


def _places(count: int) -> list[int]:
    """Which sizes are drawn: all, or MOST_SIZES of them, spread evenly and with both ends."""
    if count <= MOST_SIZES:
        return list(range(count))
    return [round(n * (count - 1) / (MOST_SIZES - 1)) for n in range(MOST_SIZES)]


def _cell(axes: Axes, x: int, y: int, row: Row | None, thick: float, colours: Colormap) -> None:
    if row is None:
        axes.text(x + 0.5, y, numbers.UNKNOWN, ha="center", va="center", size=8)
        return
    fill = colours(0.5 + 0.5 * _strength(row["speedup"]))
    axes.add_patch(Rectangle((x + 0.02, y - thick / 2), 0.96, thick, facecolor=fill, linewidth=0))
    dark = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2] < 0.5
    decided = row["verdict"] in ("faster", "slower")
    axes.text(x + 0.5, y, numbers.factor(row["speedup"]), ha="center", va="center", size=8,
              color="#ffffff" if dark else "#000000",
              weight="bold" if decided else "normal")  # fmt: skip


def _strength(speedup: float) -> float:
    """From -1 to 1, equal for 2x and 0.5x."""
    return max(-1.0, min(1.0, math.log(speedup) / math.log(STRONGEST)))
