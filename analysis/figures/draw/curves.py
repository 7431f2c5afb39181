"""Shared by the figures over a size: stacked panels, a line per mode, one legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from modescope.analysis.derive.series import Line
from modescope.analysis.figures.draw import canvas
from modescope.analysis.figures.draw.canvas import SIDE, SMALL, WIDTH, text_width
from modescope.analysis.format import style

_HIGH, _TITLE, _UNDER = 2.0, 0.32, 0.42  # inches: a panel's height, the room above and below it
_LEFT, _RIGHT, _LINE, _HANDLE = 0.62, 0.12, 0.165, 0.5
_MOST_TICKS = 8


@dataclass(frozen=True)
class _Look:
    fill: Literal["full", "none", "left", "top"]  # of the marker
    width: float  # of the line


# Of several lines of the same mode, in this order.
_LOOKS = (_Look("full", 1.3), _Look("none", 0.8), _Look("left", 1.3), _Look("top", 0.8))


@dataclass(frozen=True)
class Sheet:
    """A figure with an axes per panel, and room for a legend of `across` columns."""

    figure: Figure
    axes: Sequence[Axes]
    across: int
    legend_top: float  # inches above the lower edge

    def legend(self) -> None:
        """Adds the legend of all lines that were drawn with a label."""
        place = (0, self.legend_top / self.figure.get_figheight())
        self.figure.legend(
            loc="upper left", bbox_to_anchor=place, ncols=self.across, frameon=False,
            fontsize=SMALL, borderaxespad=0, labelspacing=0.3, columnspacing=1.2,
        )  # fmt: skip


def sheet(titles: Sequence[str], names: Sequence[str], foot: str) -> Sheet:
    """Panels with these titles, room for a legend of `names`, and `foot` in small print."""
    across = max(1, int(WIDTH / (max(text_width(name, SMALL) for name in names) + _HANDLE)))
    feet = canvas.wrapped(foot, SMALL)
    legend, beneath = -(-len(names) // across) * _LINE, len(feet) * _LINE + 0.1
    panel = _TITLE + _HIGH + _UNDER
    figure = Figure(figsize=(WIDTH, len(titles) * panel + legend + beneath + 0.04))
    every = [_axes(figure, number * panel + _TITLE + _HIGH) for number in range(len(titles))]
    for axes, title in zip(every, titles, strict=True):
        left = (SIDE - _LEFT) / (WIDTH - _LEFT - _RIGHT)
        axes.set_title(title, size=canvas.TITLE_SIZE, weight="bold", loc="left", x=left, pad=8)
    bottom = 0.06 / figure.get_figheight()
    figure.text(SIDE / WIDTH, bottom, "\n".join(feet), size=SMALL, linespacing=1.25)
    return Sheet(figure, every, across, legend + beneath)


def _axes(figure: Figure, down: float) -> Axes:
    """A panel whose lower edge lies `down` inches beneath the top."""
    height = figure.get_figheight()
    wide = WIDTH - _LEFT - _RIGHT
    return figure.add_axes((_LEFT / WIDTH, 1 - down / height, wide / WIDTH, _HIGH / height))


def curve(
    axes: Axes, line: Line, points: Sequence[tuple[float, float]], label: str | None = None
) -> None:
    """A line through (size, value) in its mode's look; `Line.look` varies the markers."""
    row, look = line.rows[0], _LOOKS[line.look % len(_LOOKS)]
    axes.plot(*zip(*points, strict=True), color=style.family(row).colour,
              marker=style.marker(row), markersize=4.5, linewidth=look.width, label=label,
              linestyle=style.linestyle(row), fillstyle=look.fill, markeredgewidth=1)  # fmt: skip


def over(axes: Axes, sizes: Sequence[int], name: str) -> None:
    """A logarithmic x axis with ticks at measured sizes, and a left spine for the values."""
    axes.set_xscale("log")
    step = -(-len(sizes) // _MOST_TICKS)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes[::step])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(name)
    axes.spines["left"].set_visible(True)
