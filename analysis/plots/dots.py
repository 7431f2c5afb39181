"""Durations as points with intervals, one per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import numbers, style
from analysis.plots.canvas import Entry, Panel, stacked
from analysis.words import Row
from bench.stats import Estimate

WIDE = 10.0  # a range beyond this factor is drawn on a logarithmic axis
DECADES = 100.0  # ... and beyond this one with a number for each decade only


@dataclass(frozen=True)
class Dot:
    """A named duration in seconds, drawn as its row's mode looks; `beyond` is a tick of its own."""

    name: str
    row: Row
    estimate: Estimate
    beyond: float | None = None


def dots(points: Sequence[Dot], title: str, foot: str) -> Figure:
    """A row per point, in their order; logarithmic where the range is WIDE and all is positive."""
    ends = [end for dot in points for end in (*_ends(dot.estimate), dot.beyond) if end is not None]
    logarithmic = min(ends) > 0 and max(ends) / min(ends) > WIDE
    with matplotlib.rc_context(style.RC):
        entries = [Entry(dot.name, numbers.estimate(dot.estimate), dot.row) for dot in points]
        stack = stacked([Panel(title, entries)], foot)
        (axes,) = stack.axes
        axes.set_xlim(*_room(min(ends), max(ends), logarithmic))
        duration_axis(axes, logarithmic)
        for place, dot in enumerate(points):
            _dot(axes, place, dot, stack.thick)
    return stack.figure


def _dot(axes: Axes, place: int, dot: Dot, thick: float) -> None:
    colour = style.family(dot.row).colour
    axes.plot(_ends(dot.estimate), (place, place), color=colour, linewidth=2,
              solid_capstyle="butt")  # fmt: skip
    axes.plot(dot.estimate.value, place, style.marker(dot.row), markersize=6.5, color=colour)
    if dot.beyond is not None:
        axes.vlines(dot.beyond, place - thick / 2, place + thick / 2, color=colour, linewidth=1.5)


def duration_axis(axes: Axes, logarithmic: bool) -> None:
    """Gives x plain durations: from 0 on, or by decades."""
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
    """A little more than the range, which holds 0 unless it is logarithmic."""
    if logarithmic:
        return low / 1.15, high * 1.15
    low, high = min(low, 0.0), max(high, 0.0)
    beyond = (high - low) * 0.04
    return (low - beyond if low < 0 else 0.0), high + beyond


def _ends(estimate: Estimate) -> tuple[float, float]:
    low, high = estimate.low, estimate.high
    return (
        estimate.value if low is None else low,
        estimate.value if high is None else high,
    )
