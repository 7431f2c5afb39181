"""The layout that all figures share: panels of named rows, round ticks, and reproducible SVG.

A panel has the names of its rows on the left and their numbers on the right. This module imports
matplotlib only, because importing seaborn takes two seconds.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from modescope.analysis.derive import over_fp32
from modescope.analysis.derive.select import GROUP, split_rows, trusted
from modescope.analysis.format import phrases, style
from modescope.analysis.format.columns import Column, Table, naming, table_of
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows

WIDTH = 6.4  # inches: 614 pixels, two columns of a page; on a phone a figure can be scrolled
NARROW = 3.7  # inches: 355 pixels, of a figure drawn for a phone
ROW = 0.21  # inches
MOST_ROWS = 60  # per figure: about two pages
SMALL = 8  # points
_LONGEST = 26  # letters of a row's name on one line
_BESIDE = (3.0, 1.9)  # inches of names and numbers beside the axes; on a phone
_RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": SMALL,
    "axes.edgecolor": style.FADED,
    "axes.labelcolor": style.INK,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "grid.color": style.FADED,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.7,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 2.0,
    "legend.columnspacing": 1.4,
    "legend.borderpad": 0.1,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "figure.constrained_layout.hspace": 0.0,
    "text.color": style.INK,
    "xtick.color": style.INK,
    "ytick.color": style.INK,
    "xtick.labelsize": SMALL,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "svg.fonttype": "none",  # keeps text as text: searchable, in the font of the page
}


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure: its texts, and the functions that draw it and make its table from a topic.

    A topic is the rows of one model at one size, a list of Grid, or a SizeSeries. `draw` returns
    None if there is nothing to show; `table` is then not called.
    """

    name: str  # prefix of its files
    title: str  # in pages, and its heading in docs/how-to-read-a-report.md
    alt: str  # a short description for screen readers
    caption: str  # how to read it
    draw: Callable[[Any], Figure | None]
    table: Callable[[Any], Table]  # the numbers drawn
    coloured: Callable[[Any], Sequence[Row]] | None = None  # rows whose colours are explained


@dataclass(frozen=True)
class Panel:
    """Rows under a title, each with its name on the left and its numbers on the right."""

    title: str
    rows: Sequence[Row]
    names: Sequence[str]
    numbers: Sequence[str]


def look(width: float = WIDTH) -> AbstractContextManager[None]:
    """A context manager that applies the matplotlib settings for drawing and saving a figure.

    `width` is that of the figure, in inches: WIDTH, or NARROW for a phone.
    """
    return matplotlib.rc_context({**_RC, "figure.figsize": (width, WIDTH)})


def width() -> float:
    """The width in inches of what is drawn: WIDTH or NARROW, as `look` was told."""
    return float(matplotlib.rcParams["figure.figsize"][0])


def is_narrow() -> bool:
    """Whether the figure is for a phone."""
    return width() < WIDTH


def _named(panels: Sequence[Panel]) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the names and the numbers of each panel; if narrow, numbers stand below the names."""
    names = [[textwrap.fill(name, _LONGEST) for name in panel.names] for panel in panels]
    values = [list(panel.numbers) for panel in panels]
    if not is_narrow():
        return names, values
    pairs = (zip(*both, strict=True) for both in zip(names, values, strict=True))
    below = [["\n".join(filter(None, pair)) for pair in panel] for panel in pairs]
    return below, [[""] * len(panel) for panel in values]


def charted(section: pd.DataFrame) -> list[Row]:
    """The rows of `section` that figures show, sorted: the baseline's precision comes first.

    Modes in tf32 that are linked to fp32 are shown over that, by their chained speedups.
    """
    rows = map(over_fp32.in_place, as_rows(trusted(section)))
    return sorted(rows, key=lambda row: (row["dtype"] != row["baseline_dtype"], style.order(row)))


def charted_table(title: str, columns: Sequence[Column]) -> Callable[[pd.DataFrame], Table]:
    """Returns a function that makes a table of a section's charted rows, with these columns."""

    def table(section: pd.DataFrame) -> Table:
        rows = charted(section)
        return table_of(title, rows, naming(rows), columns)

    return table


def panels(
    title: str, rows: Sequence[Row], numbers: Callable[[Row], str], against: bool = False
) -> list[Panel]:
    """Makes a panel for each precision and baseline among the first MOST_ROWS `rows`.

    Each panel's title begins with `title`. `numbers` returns the text on the right of a row. With
    `against`, titles always name the baseline; otherwise only if a precision has several baselines.
    """
    groups = split_rows(rows[:MOST_ROWS], GROUP)
    groups.sort(key=lambda group: group[0]["dtype"] != group[0]["baseline_dtype"])
    against |= len({phrases.precision(group[0]) for group in groups}) < len(groups)
    caches = len({row["compile_cache"] for row in rows}) > 1
    return [
        Panel(
            f"{title}, {(phrases.contest if against else phrases.precision)(group[0])}",
            group,
            [f"{phrases.mode(r)}, {r['compile_cache']}" if caches else phrases.mode(r)
             for r in group],
            [numbers(row) for row in group],
        )
        for group in groups
    ]  # fmt: skip


def sheet(
    panels: Sequence[Panel], work: str, rows: int, beside: str = "", share: bool = False
) -> tuple[Figure, list[list[Axes]]]:
    """Returns a figure, and its axes: for each panel a list of those side by side.

    Row n of a panel, counted from 0, lies at y = n; the name of a recommended mode is bold. `work`
    is the small print above the panels. `rows` is the number of all rows, of which the panels may
    have only some. `beside` is the title of second axes beside those of each panel; empty: there
    are none. With `share`, the axes in a column share their x scale.
    """
    columns = 2 if beside else 1
    names, values = _named(panels)
    row = ROW + 0.145 * max(name.count("\n") for every in names for name in every)
    spare = 0.45 if is_narrow() else 0  # as names are bold, and a phone has other fonts
    letters = max(12, int((width() - _widest(names) - spare) / columns / 0.082))
    titles = [textwrap.fill(panel.title, letters) for panel in panels]
    heights = [len(panel.rows) for panel in panels]
    high = row * sum(heights) + 0.56 * len(panels) + 0.25
    figure = Figure((width(), high + 0.17 * sum(title.count("\n") for title in titles)))
    grid = figure.subplots(
        len(panels), columns, squeeze=False, height_ratios=heights, sharex="col" if share else False
    )
    for panel, named, told, title, line in zip(panels, names, values, titles, grid, strict=True):
        places = range(len(named))
        for axes in line:
            axes.set_yticks(places, named if axes is line[0] else [""] * len(named))
            axes.set_ylim(len(named) - 0.5, -0.5)
        for label, drawn in zip(line[0].get_yticklabels(), panel.rows, strict=True):
            label.set_fontweight("bold" if drawn.get("is_recommended") else "normal")
        line[0].set_title(title)
        if beside:
            line[1].set_title(textwrap.fill(beside, letters))
        right = line[-1].secondary_yaxis("right")
        right.set_yticks(places, told, size=SMALL)
        right.spines["right"].set_visible(False)
    hidden = rows - sum(heights)
    more = f"; {hidden} more rows are in the table only" if hidden else ""
    small_print(figure, f"{work}{more}")
    return figure, [list(line) for line in grid]


def filled(title: str) -> str:
    """Returns the title of axes as wide as the figure, on several lines if it is long."""
    return textwrap.fill(title, int(width() / 0.095))


def small_print(figure: Figure, text: str) -> None:
    """Writes `text` in small print above the panels."""
    text = textwrap.fill(text, int(94 * figure.get_figwidth() / WIDTH))
    figure.set_figheight(figure.get_figheight() + 0.14 * text.count("\n"))
    figure.suptitle(text, x=0.008, ha="left", size=SMALL)


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Adds a legend below the panels, in as many columns as fit into the width."""
    names = [str(handle.get_label()) for handle in handles]

    def wide(columns: int) -> float:
        return sum(max(map(text_width, column)) + 0.56 for column in np.array_split(names, columns))

    across = next((n for n in range(len(names), 1, -1) if wide(n) <= width()), 1)
    figure.set_figheight(figure.get_figheight() + 0.2 * -(-len(names) // across))
    figure.legend(handles=handles, loc="outside lower left", ncols=across)


def room(panels: Sequence[Panel]) -> float:
    """The width in inches that is left for one axes between the names and numbers of the panels."""
    names, values = _named(panels)
    return width() - _widest(names) - _widest(values) - 0.3


def _widest(texts: Iterable[Iterable[str]]) -> float:
    return max(text_width(line) for every in texts for text in every for line in text.split("\n"))


@cache
def text_width(text: str) -> float:
    """The width in inches of a line of small print; about the same in the font of a page."""
    font = FontProperties(family=_RC["font.sans-serif"], size=SMALL)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


BINARY = [[2.0**power for power in range(-40, 61, step)] for step in (1, 2, 4)]
DECIMAL = [
    [float(f"{first}e{power}") for power in range(-12, 16) for first in firsts]
    for firsts in ((1, 2, 5), (1, 3), (1,))
]
EVEN = [[round(step * n, 4) for n in range(1, 200)] for step in (0.01, 0.02, 0.05, 0.1, 0.25, 0.5)]
"""BINARY, DECIMAL and EVEN are sets of round numbers, for `log_ticks`."""


def log_ticks(
    axis: Any, inches: float, label: Callable[[float], str], sets: Iterable[Sequence[float]]
) -> None:
    """Sets the ticks of a logarithmic axis of length `inches` to one of `sets` of round numbers.

    It takes the set with the most ticks whose labels, made by `label`, do not touch.
    """
    low, high = sorted(axis.get_view_interval())

    def touching(ticks: Sequence[float]) -> bool:
        across = axis.axis_name == "x"
        half = {tick: text_width(label(tick)) / 2 if across else 0.1 for tick in ticks}
        apart = inches / math.log(high / low)
        return any(math.log(b / a) * apart < half[a] + half[b] + 0.07 for a, b in pairwise(ticks))

    within = [[tick for tick in ticks if low <= tick <= high] for ticks in sets]
    fitting = [ticks for ticks in within if not touching(ticks)]
    axis.set_major_locator(FixedLocator(max(fitting, key=len, default=[])))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: label(value)))


def linear_ticks(axes: Axes, longest: float, unit: str, most: int = 7) -> None:
    """Sets an x axis from 0 to just beyond `longest`, with plain numbers and the `unit` below.

    There are `most` intervals between ticks or fewer, so that their labels do not touch.
    """
    beside = _BESIDE[is_narrow()]
    specification = axes.get_subplotspec()
    inches = (width() - beside) / (specification.get_gridspec().ncols if specification else 1)
    fitting = int(inches / (text_width(f"{float(f'{longest:.2g}'):g}") + 0.12))
    axes.set_xlim(0, (longest or 1.0) * max(1.04, 1 + 0.08 / inches))  # room for half a marker
    axes.xaxis.set_major_locator(MaxNLocator(max(1, min(most, fitting)), steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(unit)


def svg(figure: Figure, name: str) -> str:
    """Returns the figure as SVG without a background, byte for byte the same each time.

    `name` makes the ids in the SVG unique among the figures of a page.
    """
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with look(), matplotlib.rc_context({"svg.hashsalt": name}), io.StringIO() as buffer:
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
        return buffer.getvalue()


def on_paper(text: str) -> str:
    """Adds a white background to an SVG, for a file of its own."""
    return re.sub(r"(<svg\b[^>]*>)", r'\1\n <rect width="100%" height="100%" fill="#ffffff"/>',
                  text, count=1)  # fmt: skip


def inline(text: str) -> str:
    """Prepares an SVG for an HTML page: no prolog, no namespaces, ink in the page's text colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # the same in every figure of a page
    text = text.replace("'DejaVu Sans', sans-serif", "system-ui, sans-serif")
    return text.replace(style.INK, "currentColor")
