"""The changes of all rows with their intervals, below each other: a forest plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from modescope.analysis.compare.formats import words
from modescope.analysis.compare.rules.gate import Compared
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import MOST_ROWS, Panel
from modescope.analysis.format import numbers, phrases, style
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import ends

Choose = Callable[[Compared], Estimate | None]

_LEAST = 3.0  # percent: the half of the axis that noise does not fill


def draw(rows: Sequence[Compared], title: str, choose: Choose, margin: float) -> Figure | None:
    """A panel per work, a row per mode; None if no row has this change.

    Rows that fail have filled markers. At most MOST_ROWS rows are drawn, those that fail first; the
    line above counts the others.
    """
    known = [row for row in rows if choose(row) is not None]
    if not known:
        return None
    kept = sorted(known, key=lambda row: (not row.failures, not row.changed))[:MOST_ROWS]
    chosen = {id(row) for row in kept}
    groups = phrases.grouped((row.pair.work, row) for row in known if id(row) in chosen)
    panels = [
        Panel(
            f"{title}: {work}",
            [row.pair.row for row in members],
            [row.pair.name for row in members],
            [words.change(choose(row)) for row in members],
        )
        for work, members in groups.items()
    ]
    limits = _limits([choose(row) for row in kept], margin)
    with theme.look():
        figure, grid = theme.sheet(
            panels,
            f"right of 0 % is slower; band: ±{numbers.percent(margin)}; filled markers: rows that "
            "fail; a marker without a line has too few replicates for an interval",
            theme.beyond(len(known), panels),
        )
        for (axes,), members in zip(grid, groups.values(), strict=True):
            _panel(axes, members, choose, margin * 100)
            _scale(axes, limits)
    return figure


def _panel(axes: Axes, rows: Sequence[Compared], choose: Choose, margin: float) -> None:
    axes.axvspan(-margin, margin, color=style.FADED, alpha=0.35, linewidth=0)
    axes.axvline(0, color=style.INK, linewidth=0.8)
    for place, row in enumerate(rows):
        one = choose(row)
        assert one is not None
        colour = style.family(row.pair.row).colour
        axes.plot([end * 100 for end in ends(one)], (place, place), color=colour, linewidth=2,
                  solid_capstyle="butt")  # fmt: skip
        face = colour if row.failures else "none"
        axes.plot(one.value * 100, place, style.marker(row.pair.row), markersize=6,
                  color=colour, markerfacecolor=face, markeredgewidth=1.2)  # fmt: skip


def _limits(estimates: Sequence[Estimate | None], margin: float) -> tuple[float, float]:
    """The range of all intervals in percent, at least twice the margin to either side."""
    known = [ends(one) for one in estimates if one is not None]
    least = max(_LEAST, 200 * margin)
    low = min(100 * min(low for low, _ in known), -least)
    high = max(100 * max(high for _, high in known), least)
    room = (high - low) * 0.04
    return low - room, high + room


def _scale(axes: Axes, limits: tuple[float, float]) -> None:
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0")
    )
