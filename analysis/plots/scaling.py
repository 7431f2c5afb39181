"""How latency and overhead grow with a size."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis import numbers, style, words
from analysis.plots.canvas import WIDTH
from analysis.series import Line, Series

_HEIGHT, _TOP, _BOTTOM = 3.9, 0.6, 0.75  # inches
_LEFT, _BETWEEN, _LEGEND = 0.75, 0.25, 2.55
_MOST_TICKS = 8


def scaling(found: Series) -> Figure:
    """Latency and overhead over the size, both logarithmic, a line per mode on a common scale.

    The overhead is host time on CUDA and dispatch on a CPU. A cross on a line of the latency marks
    the size at which it is as long as device time, or half of the latency.
    """
    lines = sorted(found.lines, key=lambda line: style.order(line.rows[0]))
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(WIDTH, _HEIGHT))
        latency, overhead = (_axes(figure, number) for number in range(2))
        for line in lines:
            _draw(latency, line, "latency_s", line.name)
            _draw(overhead, line, f"{found.overhead.clock}_s")
        _mark(latency, lines, found.overhead.meets)
        for axes, title in ((latency, "latency"), (overhead, found.overhead.label)):
            _scale(axes, sorted({size for line in lines for size in line.sizes}), found.size)
            axes.set_title(title, size=9)
        _share_height(latency, overhead)
        place = 1 - (_LEGEND - 0.1) / WIDTH
        figure.legend(loc="upper left", bbox_to_anchor=(place, 1 - _TOP / _HEIGHT),
                      frameon=False, fontsize=8, borderaxespad=0)  # fmt: skip
        title = f"{words.work_at(lines[0].rows[0], found.others)}: over {found.size}"
        figure.text(0.01, 1 - 0.25 / _HEIGHT, title, weight="bold")
    return figure


def _axes(figure: Figure, number: int) -> Axes:
    wide = (WIDTH - _LEFT - _BETWEEN - _LEGEND) / 2
    left = _LEFT + number * (wide + _BETWEEN)
    inner = _HEIGHT - _TOP - _BOTTOM
    return figure.add_axes((left / WIDTH, _BOTTOM / _HEIGHT, wide / WIDTH, inner / _HEIGHT))


def _draw(axes: Axes, line: Line, clock: str, label: str | None = None) -> None:
    known = [(x, row[clock]) for x, row in zip(line.sizes, line.rows, strict=True) if row[clock]]
    if not known:
        return
    row = line.rows[0]
    axes.plot(*zip(*known, strict=True), color=style.family(row).colour,
              marker=style.marker(row), markersize=4.5, linewidth=1.3, label=label,
              linestyle=style.linestyle(row))  # fmt: skip


def _mark(axes: Axes, lines: Sequence[Line], meaning: str) -> None:
    label: str | None = meaning
    for line in lines:
        if line.crossing is not None:
            axes.plot(line.crossing.size, line.crossing.latency_s, "x", color=style.INK,
                      markersize=8, markeredgewidth=1.6, label=label, zorder=3)  # fmt: skip
            label = None


def _scale(axes: Axes, sizes: Sequence[int], name: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes[::step])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(name)
    axes.spines["left"].set_visible(True)


def _share_height(latency: Axes, overhead: Axes) -> None:
    limits = [axes.get_ylim() for axes in (latency, overhead) if axes.lines]
    for axes in (latency, overhead):
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: numbers.tick(seconds)))
        axes.yaxis.set_minor_locator(NullLocator())
    overhead.yaxis.set_ticklabels([])
