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

    The overhead is host time on CUDA and dispatch on a CPU; where no row has it, the latency
    is alone. A cross on a line of the latency marks the size at which overhead is as long as device
    time, or half of the latency.
    """
    lines = sorted(found.lines, key=lambda line: style.order(line.rows[0]))
    names = [line.name for line in lines]
    names += [found.overhead.meets] if any(line.crossing for line in lines) else []
    clocks = _clocks(found)
    titles = [f"{told.capitalize()} over {found.size}" for told in clocks.values()]
    with matplotlib.rc_context(style.RC):
        drawn = sheet(titles, names, words.work_at(lines[0].rows[0], found.others))
        for axes, clock in zip(drawn.axes, clocks, strict=True):
            for line in lines:
                _draw(axes, line, clock, line.name if clock == "latency_s" else None)
            over(axes, sorted({size for line in lines for size in line.sizes}), found.size)
            axes.set_yscale("log")
        _mark(drawn.axes[0], lines, found.overhead.meets)
        _share_height(drawn.axes)
        drawn.legend()
    return drawn.figure


def _clocks(found: Series) -> dict[str, str]:
    """The column that each panel shows, and what it is called."""
    clock = f"{found.overhead.clock}_s"
    known = any(row[clock] is not None for line in found.lines for row in line.rows)
    return {"latency_s": "latency"} | ({clock: found.overhead.label} if known else {})


def _draw(axes: Axes, line: Line, clock: str, label: str | None = None) -> None:
    known = [(x, row[clock]) for x, row in zip(line.sizes, line.rows, strict=True) if row[clock]]
    if known:
        curve(axes, line, known, label)


def _mark(axes: Axes, lines: Sequence[Line], meaning: str) -> None:
    label: str | None = meaning
    for line in lines:
        if line.crossing is not None:
            axes.plot(line.crossing.size, line.crossing.latency_s, "x", color=style.INK,
                      markersize=8, markeredgewidth=1.6, label=label, zorder=3)  # fmt: skip
            label = None


def _share_height(panels: Sequence[Axes]) -> None:
    limits = [axes.get_ylim() for axes in panels if axes.lines]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: numbers.tick(seconds)))
        axes.yaxis.set_minor_locator(NullLocator())
