"""Durations as points with intervals, one point per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from modescope.analysis.figures.draw.canvas import Entry, Panel, stacked
from modescope.analysis.format import numbers, style
from modescope.analysis.format.phrases import Row
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import ends

WIDE = 10.0  # a range beyond this factor gets a logarithmic axis
DECADES = 100.0  # ... and beyond this factor ticks at decades only


@dataclass(frozen=True)
class Dot:
    """A named duration in seconds, in its mode's look; `beyond` is drawn as a further tick."""

    name: str
    row: Row
    estimate: Estimate
    beyond: float | None = None


def dots(points: Sequence[Dot], title: str, foot: str) -> Figure:
    """A row per point, in this order; logarithmic if all are positive over a WIDE range."""
    places = [at for dot in points for at in (*ends(dot.estimate), dot.beyond) if at is not None]
    logarithmic = min(places) > 0 and max(places) / min(places) > WIDE
    with matplotlib.rc_context(style.RC):
        entries = [Entry(dot.name, numbers.estimate(dot.estimate), dot.row) for dot in points]
        stack = stacked([Panel(title, entries)], foot)
        (axes,) = stack.axes
        axes.set_xlim(*_room(min(places), max(places), logarithmic))
        duration_axis(axes, logarithmic)
        for place, dot in enumerate(points):
            _dot(axes, place, dot, stack.thick)
    return stack.figure


def _dot(axes: Axes, place: int, dot: Dot, thick: float) -> None:
    colour = style.family(dot.row).colour
    axes.plot(ends(dot.estimate), (place, place), color=colour, linewidth=2,
              solid_capstyle="butt")  # fmt: skip
    axes.plot(dot.estimate.value, place, style.marker(dot.row), markersize=6.5, color=colour)
    if dot.beyond is not None:
        axes.vlines(dot.beyond, place - thick / 2, place + thick / 2, color=colour, linewidth=1.5)


def duration_axis(axes: Axes, logarithmic: bool) -> None:
    """Formats the x axis as durations, with ticks from 0 on or by decades."""
    if logarithmic:
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        steps = (1.0,) if high / low > DECADES else (1.0, 2.0, 5.0)
        axes.xaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: numbers.tick(seconds)))


def _room(low: float, high: float, logarithmic: bool) -> tuple[float, float]:
    """The range with a margin; it includes 0 unless logarithmic."""
    if logarithmic:
        return low / 1.15, high * 1.15
    low, high = min(low, 0.0), max(high, 0.0)
    beyond = (high - low) * 0.04
    return (low - beyond if low < 0 else 0.0), high + beyond
