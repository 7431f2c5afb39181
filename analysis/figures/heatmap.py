"""Speedups by mode and size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from modescope.analysis.derive.series import Grid
from modescope.analysis.figures.draw.canvas import Entry, Panel, and_more, stacked
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table

MOST_PANELS, MOST_SIZES = 4, 8  # per figure; per panel, as more leave no room for numbers
STRONGEST = 3.0  # times faster or slower at which the colour saturates
_COLOURS = "PuOr"  # orange to purple, safe for colour-blind readers (ColorBrewer)
_FOOT = (
    "speedup: purple is faster, orange slower, white 1×; bold: faster or slower beyond ±1 %; "
    "–: not measured or not charted"
)


def draw(grids: Sequence[Grid]) -> Figure | None:
    """A panel for each grid of one work; None without any."""
    if not grids:
        return None
    shown = grids[:MOST_PANELS]
    panels = [Panel(_title(grid), _entries(grid)) for grid in shown]
    hidden = sum(len(grid.modes) for grid in grids[MOST_PANELS:])
    foot = f"{and_more(_FOOT, hidden)}\n{phrases.work_at(grids[0].first, '{}')}"
    with matplotlib.rc_context(style.RC):
        stack = stacked(panels, foot, bar=0.2)
        for axes, grid in zip(stack.axes, shown, strict=True):
            _draw(axes, grid, stack.thick)
    return stack.figure


def _title(grid: Grid) -> str:
    others = f", {phrases.sizes(grid.others)}" if grid.others != "{}" else ""
    return f"Speedup over {grid.size}, {phrases.contest(grid.first)}{others}"


def _entries(grid: Grid) -> list[Entry]:
    left_out = len(grid.sizes) - MOST_SIZES
    note = f"{left_out} sizes not drawn" if left_out > 0 else ""
    return [
        Entry(name, note, next(row for row in mode if row is not None))
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
    """The sizes to draw: all, or MOST_SIZES evenly spread ones including both ends."""
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


def caption(grids: Sequence[Grid]) -> str:
    """The fastest mode at each size, and the modes whose intervals overlap its own."""
    return " ".join(_sentence(grid, len({g.others for g in grids}) > 1) for grid in grids)


def _sentence(grid: Grid, several: bool) -> str:
    sizes: dict[str, list[str]] = {}  # fastest mode -> the sizes at which it is
    for place, size in enumerate(grid.sizes):
        column = [row for mode in grid.modes if (row := mode[place]) is not None]
        sizes.setdefault(_fastest(column), []).append(str(size))
    where = f"{phrases.sizes(grid.others)}, " if several and grid.others != "{}" else ""
    clauses = "; ".join(f"at {grid.size} {phrases.listed(at)}: {who}" for who, at in sizes.items())
    return f"Fastest, {where}{phrases.contest(grid.first)}, {clauses}."


def _fastest(rows: Sequence[Row]) -> str:
    faster = [row for row in rows if row["verdict"] == "faster" and not phrases.is_control(row)]
    if not faster:
        return "no mode is shown to be faster"
    best = max(faster, key=lambda row: row["speedup_ci_low"])
    tied = [
        phrases.mode(row) for row in rows
        if row is not best and row["speedup_ci_high"] >= best["speedup_ci_low"]
    ]  # fmt: skip
    name = phrases.mode(best)
    return f"{name} (or {', '.join(tied)}: intervals overlap)" if tied else name


def table(grids: Sequence[Grid]) -> Table:
    """Speedups by mode and size, all grids of one work in one table."""
    sizes = sorted({size for grid in grids for size in grid.sizes})
    lines = []
    for grid in grids:
        contest = ", ".join(filter(None, (phrases.contest(grid.first), phrases.sizes(grid.others))))
        for name, mode in zip(grid.names, grid.modes, strict=True):
            at = dict(zip(grid.sizes, mode, strict=True))
            lines.append((name, contest, *(_speedup(at.get(size)) for size in sizes)))
    titles = ("mode", "comparison", *(f"{grids[0].size} {size}" for size in sizes))
    return Table("Speedups by size", titles, 2, tuple(lines))


def _speedup(row: Row | None) -> str:
    return numbers.UNKNOWN if row is None else cells.speedup(row)


FIGURE = FigureKind(
    "heatmap", "Speedup by mode and size",
    "a grid of speedups, a row per mode and a column per size", draw, caption, table,
)  # fmt: skip
