"""How much device work each mode leaves of eager's, and in how many kernels."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import numbers, style, words
from analysis.gains import Pair, pairs
from analysis.plots.canvas import MOST_ROWS, SMALL, Entry, Panel, and_more, stacked
from analysis.plots.dots import duration_axis

_FOOT = "circle: plain eager with the same grad axis; numbers at the ends: kernels"


def fusion(section: pd.DataFrame) -> Figure | None:
    """A dumbbell for each mode of a SECTION whose fusion gain is known; None where none is.

    It reaches from the work of plain eager to that of the mode; kernels are counted at both ends.
    """
    found = pairs(section)
    if not found:
        return None
    shown = found[:MOST_ROWS]
    entries = [Entry(words.variant(p.row), numbers.ratio(p.gain), p.row) for p in shown]
    longest_s = max(max(pair.row["work_s"], pair.reference_work_s) for pair in shown)
    foot = f"{and_more(_FOOT, len(found) - len(shown))}\n{words.work(found[0].row)}"
    with matplotlib.rc_context(style.RC):
        stack = stacked([Panel("Device work of a call", entries)], foot)
        (axes,) = stack.axes
        axes.set_xlim(0, longest_s * 1.12)
        duration_axis(axes, logarithmic=False)
        for place, pair in enumerate(shown):
            _dumbbell(axes, place, pair)
    return stack.figure


def _dumbbell(axes: Axes, place: int, pair: Pair) -> None:
    colour = style.family(pair.row).colour
    ends = (pair.row["work_s"], pair.reference_work_s)
    axes.plot(ends, (place, place), linewidth=2, color=colour, solid_capstyle="butt")
    axes.plot(ends[1], place, "o", color=style.EAGER.colour, markersize=6.5)
    axes.plot(ends[0], place, style.marker(pair.row), color=colour, markersize=6.5)
    leftwards = -1 if ends[0] <= ends[1] else 1
    for end_s, row, side in (
        (ends[0], pair.row, leftwards),
        (ends[1], pair.reference, -leftwards),
    ):
        if row["kernels"] is not None:
            axes.annotate(numbers.count(row["kernels"]), (end_s, place), (7 * side, 0),
                          textcoords="offset points", va="center", size=SMALL,
                          ha="left" if side > 0 else "right")  # fmt: skip
