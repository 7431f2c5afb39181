"""What the memory of each mode is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import memory as made_of
from analysis import numbers, style, words
from analysis.plots.bars import axis, bars
from analysis.plots.canvas import MOST_ROWS, Entry, and_more
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
    drawn = [(_entry(row), made_of.lanes(row)) for row in shown]
    used = {name for _, lanes in drawn for lane in lanes for name, _ in lane}
    foot = and_more(_foot(shown, used), len(rows) - len(shown))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Memory at the peak of a call", drawn, style.SOURCES, f"{foot}\n{words.work(rows[0])}"
        )
        for place, row in enumerate(shown):
            _mark(axes, place, row, stack.thick)
        axis(axes, numbers.size_tick, numbers.size_unit(axes.get_xlim()[1])[0])
    return stack.figure


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
    foot = "; ".join(filter(None, told))
    return foot


def _mark(axes: Axes, place: int, row: Row, thick: float) -> None:
    setup_bytes = made_of.setup_bytes(row)
    if setup_bytes is not None:
        colour, half = style.family(row).colour, thick / 2
        axes.plot([setup_bytes] * 2, (place - half, place + half), color=colour, linewidth=2)


def _entry(row: Row) -> Entry:
    peak, free = f"peak {numbers.size(row['peak_bytes'])}", made_of.pool_free_bytes(row)
    pool = f", {numbers.size(free)} free in a pool" if free else ""
    return Entry(words.variant(row), peak + pool, row)
