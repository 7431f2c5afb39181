"""What the memory of each mode is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import memory as made_of
from analysis import numbers, style, words
from analysis.plots.bars import BESIDE, LEGEND, axis, draw, legend
from analysis.plots.canvas import MOST_ROWS, and_more, beside, stacked
from analysis.words import Row


def memory(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of a SECTION up to each peak, and of training what is held between two steps.

    A vertical line marks the peak of the first call, where it is known to lie above that of a
    steady one. None where no trusted row has a known peak.
    """
    rows = made_of.charted(section)
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    stacks = [made_of.lanes(row) for row in shown]
    used = {name for lanes in stacks for lane in lanes for name, _ in lane}
    foot = and_more(_foot(shown, used), len(rows) - len(shown))
    title = f"{words.work(rows[0])}: memory at the peak of a call"
    two = "pool" in used or max(map(len, stacks)) > 1  # bars to a row, or lines of numbers
    with matplotlib.rc_context(style.RC):
        named = [(title, [words.variant(row) for row in shown])]
        figure, (axes,) = stacked(named, foot, **(BESIDE if two else {}), room=LEGEND)
        for place, (row, each) in enumerate(zip(shown, stacks, strict=True)):
            draw(axes, place, each, style.SOURCES)
            _mark(axes, place, row)
            beside(axes, place, _numbers(row))
        axis(axes, numbers.size_tick, numbers.size_unit(axes.get_xlim()[1])[0])
        legend(figure, used, style.SOURCES)
    return figure


def _foot(rows: Sequence[Row], used: Collection[str]) -> str:
    marked = any(made_of.setup_bytes(row) is not None for row in rows)
    two = any(made_of.drops_gradients(row) for row in rows)
    told = (
        "upper bar: the peak, with activations at their most and gradients in the rest; lower "
        "bar: between two steps"
        if two
        else "",
        "line: the first call peaked there or higher" if marked else "",
        "kept besides: largely the workspace of cuBLAS"
        if "kept" in used and words.on_cuda(rows[0])
        else "",
    )
    return "; ".join(filter(None, told))


def _mark(axes: Axes, place: int, row: Row) -> None:
    setup_bytes = made_of.setup_bytes(row)
    if setup_bytes is not None:
        colour = style.family(row).colour
        axes.plot([setup_bytes] * 2, (place - 0.4, place + 0.4), color=colour, linewidth=2)


def _numbers(row: Row) -> str:
    peak = f"peak {numbers.size(row['peak_bytes'])}"
    free = made_of.pool_free_bytes(row)
    pool = f"pool {numbers.size(row['graph_pool_bytes'])}, {numbers.size(free)} of it free"
    return f"{peak}\n{pool}" if free else peak
