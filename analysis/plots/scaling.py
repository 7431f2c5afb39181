"""How latency and overhead grow with a size."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from analysis import numbers, style, words
from analysis.plots.canvas import SIDE, SMALL, TITLE_SIZE, WIDTH, text_width, wrapped
from analysis.series import Line, Series

_HIGH, _TITLE, _UNDER = 2.0, 0.32, 0.42  # inches: of a panel, above it, beneath it
_LEFT, _RIGHT, _LINE, _HANDLE = 0.62, 0.12, 0.165, 0.5
_MOST_TICKS = 8


def scaling(found: Series) -> Figure:
    """Latency and overhead over the size, both logarithmic, a line per mode on a common scale.

    The overhead is host time on CUDA and dispatch on a CPU. A cross on a line of the latency marks
    the size at which it is as long as device time, or half of the latency.
    """
    lines = sorted(found.lines, key=lambda line: style.order(line.rows[0]))
    names = [line.name for line in lines]
    names += [found.overhead.meets] if any(line.crossing for line in lines) else []
    across = max(1, int(WIDTH / (max(text_width(name, SMALL) for name in names) + _HANDLE)))
    foot = wrapped(words.work_at(lines[0].rows[0], found.others), SMALL)
    legend, beneath = -(-len(names) // across) * _LINE, len(foot) * _LINE + 0.1
    panel = _TITLE + _HIGH + _UNDER
    with matplotlib.rc_context(style.RC):
        figure = Figure(figsize=(WIDTH, 2 * panel + legend + beneath + 0.04))
        latency, overhead = (_axes(figure, number * panel + _TITLE + _HIGH) for number in range(2))
        for line in lines:
            _draw(latency, line, "latency_s", line.name)
            _draw(overhead, line, f"{found.overhead.clock}_s")
        _mark(latency, lines, found.overhead.meets)
        for axes, title in ((latency, "latency"), (overhead, found.overhead.label)):
            _scale(axes, sorted({size for line in lines for size in line.sizes}), found.size)
            _title(axes, f"{title.capitalize()} over {found.size}")
        _share_height(latency, overhead)
        _legend(figure, across, legend + beneath)
        bottom = 0.06 / figure.get_figheight()
        figure.text(SIDE / WIDTH, bottom, "\n".join(foot), size=SMALL, linespacing=1.25)
    return figure


def _axes(figure: Figure, down: float) -> Axes:
    """A panel whose lower edge lies `down` inches beneath the top."""
    height = figure.get_figheight()
    wide = WIDTH - _LEFT - _RIGHT
    return figure.add_axes((_LEFT / WIDTH, 1 - down / height, wide / WIDTH, _HIGH / height))


def _title(axes: Axes, text: str) -> None:
    left = (SIDE - _LEFT) / (WIDTH - _LEFT - _RIGHT)
    axes.set_title(text, size=TITLE_SIZE, weight="bold", loc="left", x=left, pad=8)


def _legend(figure: Figure, across: int, top: float) -> None:
    place = (0, top / figure.get_figheight())
    figure.legend(
        loc="upper left", bbox_to_anchor=place, ncols=across, frameon=False, fontsize=SMALL,
        borderaxespad=0, labelspacing=0.3, columnspacing=1.2,
    )  # fmt: skip


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
