"""How what is saved for a backward grows with a size."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis import numbers, style, words
from analysis.activations import Saved, saved
from analysis.plots.canvas import WIDTH
from analysis.series import Series

_HEIGHT, _TOP, _BOTTOM = 3.6, 0.5, 0.75  # inches
_LEFT, _LEGEND = 0.9, 2.8
_MOST_TICKS = 8


def activations(found: Series) -> Figure | None:
    """Saved bytes over the size, both logarithmic, a line per mode; None where nothing is saved.

    A pale band is what grows in proportion: it ends in the last point of the first mode.
    """
    every = saved(found)
    if not every:
        return None
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(WIDTH, _HEIGHT))
        inner = (WIDTH - _LEFT - _LEGEND) / WIDTH, (_HEIGHT - _TOP - _BOTTOM) / _HEIGHT
        axes = figure.add_axes((_LEFT / WIDTH, _BOTTOM / _HEIGHT, *inner))
        for one in every:
            _draw(axes, one)
        _proportional(axes, every[0], found.size)
        _scale(axes, sorted({size for one in every for size in one.sizes}), found.size)
        place = 1 - (_LEGEND - 0.1) / WIDTH
        figure.legend(loc="upper left", bbox_to_anchor=(place, 1 - _TOP / _HEIGHT),
                      frameon=False, fontsize=8, borderaxespad=0)  # fmt: skip
        work = words.work_at(every[0].line.rows[0], found.others)
        figure.text(0.01, 1 - 0.25 / _HEIGHT, f"{work}: saved for backward over {found.size}",
                    weight="bold")  # fmt: skip
    return figure


def _draw(axes: Axes, one: Saved) -> None:
    row = one.line.rows[0]
    axes.plot(one.sizes, one.saved_bytes, color=style.family(row).colour, label=one.line.name,
              marker=style.marker(row), markersize=4.5, linewidth=1.3,
              linestyle=style.linestyle(row))  # fmt: skip


def _proportional(axes: Axes, one: Saved, name: str) -> None:
    ends = one.sizes[0], one.sizes[-1]
    heights = [one.saved_bytes[-1] * size / ends[1] for size in ends]
    axes.plot(ends, heights, color=style.FADED, linewidth=7, alpha=0.35, zorder=0,
              solid_capstyle="butt", label=f"in proportion to {name}")  # fmt: skip


def _scale(axes: Axes, sizes: Sequence[int], name: str) -> None:
    """Sizes as they were measured, bytes by powers of two."""
    axes.set_xscale("log")
    axes.set_yscale("log", base=2)
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes[::step])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=_MOST_TICKS))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: numbers.size_tick(size)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(name)
    axes.spines["left"].set_visible(True)
