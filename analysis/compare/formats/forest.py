"""The changes of all rows with their intervals, below each other: a forest plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules.gate import Compared
from modescope.analysis.figures.draw.canvas import (
    BAR,
    MOST_ROWS,
    Entry,
    Panel,
    and_more,
    stacked,
)  # fmt: skip
from modescope.analysis.format import numbers, phrases, style
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import ends

Choose = Callable[[Compared], Estimate | None]

_LEAST = 3.0  # percent: the half of the axis that noise does not fill


def draw(rows: Sequence[Compared], title: str, choose: Choose, margin: float) -> Figure | None:
    """A panel per work, a row per mode; None if no row has this change.

    Rows that fail have filled markers. At most MOST_ROWS rows are drawn, those that fail first; the
    foot counts the others.
    """
    known = [row for row in rows if choose(row) is not None]
    if not known:
        return None
    kept = sorted(known, key=lambda row: (not row.failures, not row.changed))[:MOST_ROWS]
    chosen = {id(row) for row in kept}
    shown = [row for row in known if id(row) in chosen]
    with matplotlib.rc_context(style.RC):
        return _drawn(shown, title, choose, margin, len(known) - len(shown))


def _drawn(
    rows: Sequence[Compared], title: str, choose: Choose, margin: float, hidden: int
) -> Figure:
    groups = phrases.grouped((row.pair.work, row) for row in rows)
    panels = [
        Panel(
            f"{title}: {work}",
            [Entry(row.pair.name, words.change(choose(row)), row.pair.row) for row in members],
        )
        for work, members in groups.items()
    ]
    foot = (
        f"right of 0 % is slower; dark band: ±{numbers.percent(margin)}; filled markers: rows that "
        "fail; a marker without a line has too few replicates for an interval"
    )
    stack = stacked(panels, and_more(foot, hidden))
    limits = _limits([choose(row) for row in rows], margin)
    for axes, members in zip(stack.axes, groups.values(), strict=True):
        _scale(axes, limits)
        _panel(axes, members, choose, margin * 100, stack.thick / 2)
    return stack.figure


def _panel(
    axes: Axes, rows: Sequence[Compared], choose: Choose, margin: float, half: float
) -> None:
    places = range(len(rows))
    axes.hlines(places, -margin, margin, color=style.FADED, alpha=0.45, linewidth=BAR * 72,
                capstyle="butt")  # fmt: skip
    axes.vlines([0] * len(rows), [n - half for n in places], [n + half for n in places],
                color=style.INK, linewidth=0.8)  # fmt: skip
    for place, row in enumerate(rows):
        one = choose(row)
        assert one is not None
        colour = style.family(row.pair.row).colour
        axes.plot([end * 100 for end in ends(one)], (place, place), color=colour, linewidth=2,
                  solid_capstyle="butt")  # fmt: skip
        face = colour if row.failures else "none"
        axes.plot(one.value * 100, place, style.marker(row.pair.row), markersize=6.5,
                  color=colour, markerfacecolor=face, markeredgewidth=1.3)  # fmt: skip


def _limits(estimates: Sequence[Estimate | None], margin: float) -> tuple[float, float]:
    """The range of all intervals in percent, at least twice the margin to either side."""
    known = [ends(one) for one in estimates if one is not None]
    least = max(_LEAST, 200 * margin)
    low = min(100 * min(low for low, _ in known), -least)
    high = max(100 * max(high for _, high in known), least)
    room = (high - low) * 0.03
    return low - room, high + room


def _scale(axes: Axes, limits: tuple[float, float]) -> None:
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0")
    )
