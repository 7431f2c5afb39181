"""What the memory of each mode is made of."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import memory as made_of
from analysis import style, words
from analysis.plots.bars import BESIDE, LEGEND, Lane, axis, draw, legend
from analysis.plots.canvas import MOST_ROWS, and_more, beside, stacked
from analysis.words import Row


def memory(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of a SECTION up to each peak, the graph pool in a bar of its own.

    A vertical line marks the peak of the first call, where it was the allocator's. None where no
    trusted row has a known peak.
    """
    rows = made_of.charted(section)
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    lanes = [_lanes(row) for row in shown]
    used = {name for each in lanes for lane in each for name, _ in lane}
    marked = any(made_of.setup_bytes(row) is not None for row in shown)
    foot = and_more("line: peak of the first call" if marked else "", len(rows) - len(shown))
    title = f"{words.work(rows[0])}: memory at the peak of a call"
    with matplotlib.rc_context(style.RC):
        named = [(title, [words.variant(row) for row in shown])]
        figure, (axes,) = stacked(named, foot, **BESIDE, room=LEGEND)
        for place, (row, each) in enumerate(zip(shown, lanes, strict=True)):
            draw(axes, place, each, style.SOURCES)
            _mark(axes, place, row)
            beside(axes, place, _numbers(row))
        axis(axes, words.size_tick, words.size_unit(axes.get_xlim()[1])[0])
        legend(figure, used, style.SOURCES)
    return figure


def _lanes(row: Row) -> list[Lane]:
    pool = row["graph_pool_bytes"]
    return [made_of.stack(row), *([[("pool", pool)]] if pool else [])]


def _mark(axes: Axes, place: int, row: Row) -> None:
    setup_bytes = made_of.setup_bytes(row)
    if setup_bytes is not None:
        colour = style.family(row).colour
        axes.plot([setup_bytes] * 2, (place - 0.4, place + 0.4), color=colour, linewidth=2)


def _numbers(row: Row) -> str:
    peak = f"peak {words.size(row['peak_bytes'])}"
    pool = row["graph_pool_bytes"]
    return f"{peak}\npool {words.size(pool)}" if pool else peak
