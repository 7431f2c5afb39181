"""How latency and overhead grow with a size."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis import numbers, style, words
from analysis.plots.curves import curve, over, sheet
from analysis.series import Line, Series


def scaling(found: Series) -> Figure:
    """Latency and overhead over the size, both logarithmic, a line per mode on a common scale.

    The overhead is host time on CUDA and dispatch on a CPU. A cross on a line of the latency marks
    the size at which it is as long as device time, or half of the latency.
    """
    lines = sorted(found.lines, key=lambda line: style.order(line.rows[0]))
    names = [line.name for line in lines]
    names += [found.overhead.meets] if any(line.crossing for line in lines) else []
    titles = [
        f"{told.capitalize()} over {found.size}" for told in ("latency", found.overhead.label)
    ]
    with matplotlib.rc_context(style.RC):
        drawn = sheet(titles, names, words.work_at(lines[0].rows[0], found.others))
        latency, overhead = drawn.axes
        for line in lines:
            _draw(latency, line, "latency_s", line.name)
            _draw(overhead, line, f"{found.overhead.clock}_s")
        _mark(latency, lines, found.overhead.meets)
        for axes in drawn.axes:
            over(axes, sorted({size for line in lines for size in line.sizes}), found.size)
            axes.set_yscale("log")
        _share_height(latency, overhead)
        drawn.legend()
    return drawn.figure


def _draw(axes: Axes, line: Line, clock: str, label: str | None = None) -> None:
    known = [(x, row[clock]) for x, row in zip(line.sizes, line.rows, strict=True) if row[clock]]
    if known:
        curve(axes, line.rows[0], known, label)


def _mark(axes: Axes, lines: Sequence[Line], meaning: str) -> None:
    label: str | None = meaning
    for line in lines:
        if line.crossing is not None:
            axes.plot(line.crossing.size, line.crossing.latency_s, "x", color=style.INK,
                      markersize=8, markeredgewidth=1.6, label=label, zorder=3)  # fmt: skip
            label = None


def _share_height(latency: Axes, overhead: Axes) -> None:
    limits = [axes.get_ylim() for axes in (latency, overhead) if axes.lines]
    for axes in (latency, overhead):
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: numbers.tick(seconds)))
        axes.yaxis.set_minor_locator(NullLocator())
