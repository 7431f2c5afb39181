"""Bytes saved for backward over a size, by mode."""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from modescope.analysis.derive.series import TOLERANCE, Saved, Series, saved
from modescope.analysis.figures.draw.curves import curve, over, sheet
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.tables import Table


def draw(series: Series) -> Figure | None:
    """Saved bytes over the size, both logarithmic, a line per mode; None if nothing is saved.

    A pale band shows proportional growth; it ends at the last point of the first mode.
    """
    known = saved(series)
    if not known:
        return None
    first, band = known[0], f"proportional to {series.size}"
    names = [*(one.line.name for one in known), band]
    with matplotlib.rc_context(style.RC):
        work = phrases.work_at(first.line.rows[0], series.others)
        panels = sheet([f"Saved for backward over {series.size}"], names, work)
        (axes,) = panels.axes
        for one in known:
            points = list(zip(one.sizes, one.saved_bytes, strict=True))
            curve(axes, one.line, points, one.line.name)
        _proportional(axes, first, band)
        over(axes, sorted({size for one in known for size in one.sizes}), series.size)
        _by_powers_of_two(axes)
        panels.legend()
    return panels.figure


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


def caption(series: Series) -> str:
    """The bytes that each mode saves per unit of the size, and the modes that save none."""
    known = saved(series)
    straight, bent = ([one for one in known if one.is_straight is s] for s in (True, False))
    clauses = {
        f"Saved for backward per unit of {series.size}": [_straight(o, series) for o in straight],
        f"Not linear in {series.size}": [_bent(one, series) for one in bent],
        "Nothing is saved by": _without(series),
    }
    return " ".join(f"{title}: {', '.join(modes)}." for title, modes in clauses.items() if modes)


def _straight(one: Saved, series: Series) -> str:
    text = f"{one.line.name} {numbers.size(one.per_unit_bytes)}"
    if abs(one.fixed_bytes) <= TOLERANCE * one.saved_bytes[0]:
        return text
    return f"{text} (plus {numbers.size(one.fixed_bytes)} at any {series.size})"


def _bent(one: Saved, series: Series) -> str:
    pairs = [(one.sizes[place], one.saved_bytes[place]) for place in (0, -1)]
    ends = " and ".join(f"{numbers.size(saved)} at {series.size} {size}" for size, saved in pairs)
    return f"{one.line.name} ({ends})"


def _without(series: Series) -> list[str]:
    return [
        line.name for line in series.lines
        if all(row["saved_activation_bytes"] == 0 for row in line.rows)
    ]  # fmt: skip


def table(series: Series) -> Table:
    """The bytes saved at each size, for each mode that saves any."""
    known = saved(series)
    sizes = sorted({size for one in known for size in one.sizes})
    titles = ("mode", *(f"{series.size} {size}" for size in sizes))
    return Table("Saved bytes", titles, 1, tuple(_cells(one, sizes) for one in known))


def _cells(one: Saved, sizes: list[int]) -> tuple[str, ...]:
    at = dict(zip(one.sizes, one.saved_bytes, strict=True))
    return one.line.name, *(numbers.size(at.get(size)) for size in sizes)


FIGURE = FigureKind(
    "saved", "Saved for backward over a size", "bytes saved over a size, a line per mode",
    draw, caption, table,
)  # fmt: skip
