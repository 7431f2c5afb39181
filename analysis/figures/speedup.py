"""Speedups with their intervals, by mode."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from modescope.analysis.derive.select import GROUP, parts, trusted
from modescope.analysis.figures.draw.canvas import BAR, MOST_ROWS, Entry, Panel, and_more, stacked
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import table_of
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import AGAINST, SPEEDUP, VERDICT, Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.stats.estimates import MARGIN

_LETTER, _GAP = 0.02, 0.03  # of a tick's label, and between two: as shares of the axis
_STEPS = (1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01)
_DECIDED = ("faster", "slower")
_FOOT = "right of 1× is faster; dark band: ±1 %; filled markers: faster or slower"
_COLUMNS = (
    AGAINST,
    SPEEDUP,
    VERDICT,
    Column("smallest detectable change", lambda row: numbers.percent(row["mde"]), optional=True),
    Column("rounds", lambda row: numbers.calls(row["rounds"])),
)


def draw(section: pd.DataFrame) -> Figure | None:
    """A panel per GROUP of a SECTION, a row per mode; None without a trusted row.

    At most MOST_ROWS rows are drawn; the foot of the figure counts the others. Filled markers are
    verdicts of faster or slower; each row also names its verdict.
    """
    chart = trusted(section)
    panels = [sorted(phrases.as_rows(part), key=style.order) for part in parts(chart, GROUP)]
    shown = _first(panels, MOST_ROWS)
    if not shown:
        return None
    with matplotlib.rc_context(style.RC):
        return _drawn(shown, len(chart) - sum(map(len, shown)))


def _first(panels: Sequence[list[Row]], room: int) -> list[list[Row]]:
    """The first `room` rows, panel by panel."""
    shown = []
    for panel in panels:
        shown.append(panel[: max(room, 0)])
        room -= len(panel)
    return [panel for panel in shown if panel]


def _drawn(panels: Sequence[list[Row]], hidden: int) -> Figure:
    limits = _limits([row for panel in panels for row in panel])
    works = dict.fromkeys(phrases.work(panel[0]) for panel in panels)
    named = [
        Panel(f"Speedup, {phrases.contest(panel[0])}", [_entry(row) for row in panel])
        for panel in panels
    ]
    foot = f"{and_more(_FOOT, hidden)}\n{'; '.join(works)}"
    stack = stacked(named, foot)
    for axes, panel in zip(stack.axes, panels, strict=True):
        _scale(axes, limits)
        _panel(axes, panel, stack.thick)
    return stack.figure


def _entry(row: Row) -> Entry:
    return Entry(phrases.mode(row), f"{cells.speedup(row)}  {row['verdict']}", row)


def _panel(axes: Axes, panel: Sequence[Row], thick: float) -> None:
    places, half = range(len(panel)), thick / 2
    axes.hlines(places, 1 / (1 + MARGIN), 1 + MARGIN, color=style.FADED, alpha=0.45,
                linewidth=BAR * 72, capstyle="butt")  # fmt: skip
    axes.vlines([1] * len(panel), [n - half for n in places], [n + half for n in places],
                color=style.INK, linewidth=0.8)  # fmt: skip
    for place, row in enumerate(panel):
        colour = style.family(row).colour
        axes.plot((row["speedup_ci_low"], row["speedup_ci_high"]), (place, place), color=colour,
                  linewidth=2, solid_capstyle="butt")  # fmt: skip
        filled = row["verdict"] in _DECIDED
        axes.plot(row["speedup"], place, style.marker(row), markersize=6.5, color=colour,
                  markerfacecolor=colour if filled else "none", markeredgewidth=1.3)  # fmt: skip


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    """The range of all intervals, with a minimum so that noise does not fill the width."""
    low = min(row["speedup_ci_low"] for row in rows)
    high = max(row["speedup_ci_high"] for row in rows)
    return min(low / 1.02, 0.95), max(high * 1.02, 1.05)


def _scale(axes: Axes, limits: tuple[float, float]) -> None:
    """A logarithmic axis, so that 2× and 0.5× are equally far from 1×."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(*limits)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _label(value)))


def _ticks(low: float, high: float) -> list[float]:
    """Five to ten round numbers: powers of two over a wide range, else the widest even step."""
    if high / low > 6:
        powers = [2.0**power for power in range(-10, 11)]
        return [power for power in powers if low <= power <= high]
    step = next((step for step in _STEPS if (high - low) / step >= 4), _STEPS[-1])
    even = [round(step * place, 6) for place in range(1, 1000) if low <= step * place <= high]
    below, above = [tick for tick in even[::-1] if tick <= 1], [tick for tick in even if tick >= 1]
    return sorted({*_spaced(below, high / low), *_spaced(above, high / low)})


def _spaced(ticks: Sequence[float], span: float) -> list[float]:
    """The first tick and all whose labels do not touch, on a logarithmic axis over `span`."""
    kept = list(ticks[:1])
    for tick in ticks[1:]:
        if abs(math.log(tick / kept[-1])) >= _room(tick, kept[-1]) * math.log(span):
            kept.append(tick)
    return kept


def _room(*neighbours: float) -> float:
    """The least distance of two labels, from centre to centre, as a share of the axis."""
    letters = sum(len(_label(tick)) for tick in neighbours) / 2
    return _LETTER * letters + _GAP


def _label(tick: float) -> str:
    return f"{tick:g}×"


def caption(section: pd.DataFrame) -> str | None:
    """How many modes are faster, slower or neither, for each GROUP; None without a trusted row."""
    charted = trusted(section)
    if charted.empty:
        return None
    clauses = []
    for group in map(phrases.as_rows, parts(charted, GROUP)):
        verdicts = Counter(row["verdict"] for row in group if not phrases.is_control(row))
        counts = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
        counts = counts or "only the baseline against itself"
        clauses.append(f"{phrases.contest(group[0])}: {counts}")
    least = charted["mde"].dropna().max()  # only rows of a single process have one
    doubt = (
        "" if pd.isna(least)
        else f"; even the least certain row would detect a true change of {numbers.percent(least)} "
        "in 80 % of such runs"
    )  # fmt: skip
    return f"{'; '.join(clauses)}{doubt}."


def table(section: pd.DataFrame) -> Table:
    """The speedup of each mode with its interval, verdict and smallest detectable change."""
    return table_of("Speedups", section, _COLUMNS)


FIGURE = FigureKind(
    "speedup", "Speedup", "speedups with their intervals, a row per mode", draw, caption, table
)
