"""How what is saved for a backward grows with a size."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis import numbers, style, words
from analysis.activations import Saved, saved
from analysis.plots.curves import curve, over, sheet
from analysis.series import Series


def activations(found: Series) -> Figure | None:
    """Saved bytes over the size, both logarithmic, a line per mode; None where nothing is saved.

    A pale band is what grows in proportion: it ends in the last point of the first mode.
    """
    every = saved(found)
    if not every:
        return None
    first, band = every[0], f"in proportion to {found.size}"
    names = [*(one.line.name for one in every), band]
    with matplotlib.rc_context(style.RC):
        work = words.work_at(first.line.rows[0], found.others)
        drawn = sheet([f"Saved for backward over {found.size}"], names, work)
        (axes,) = drawn.axes
        for one in every:
            points = list(zip(one.sizes, one.saved_bytes, strict=True))
            curve(axes, one.line, points, one.line.name)
        _proportional(axes, first, band)
        over(axes, sorted({size for one in every for size in one.sizes}), found.size)
        _by_powers_of_two(axes)
        drawn.legend()
    return drawn.figure


def _proportional(axes: Axes, one: Saved, label: str) -> None:
    ends = one.sizes[0], one.sizes[-1]
    heights = [one.saved_bytes[-1] * size / ends[1] for size in ends]
    axes.plot(ends, heights, color=style.FADED, linewidth=7, alpha=0.35, zorder=0,
              solid_capstyle="butt", label=label)  # fmt: skip


def _by_powers_of_two(axes: Axes) -> None:
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_locator(LogLocator(base=2, numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda size, _: numbers.size_tick(size)))
    axes.yaxis.set_minor_locator(NullLocator())
