"""Which parts of a training step take its time, mode by mode."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from analysis import numbers, style, words
from analysis import training as made_of
from analysis.plots.bars import BESIDE, LEGEND, Lane, axis, draw, legend
from analysis.plots.canvas import MOST_ROWS, and_more, beside, stacked
from analysis.words import Row

_FOOT = "upper bar: its parts, each waited for, in a pass of their own; lower bar: the step itself"


def parts(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of the parts over the undivided step; None where no step of a SECTION has parts.

    Both bars begin at 0, so what the parts leave of the step, or take beyond it, shows at their
    ends. A step that could not be taken apart has the lower bar alone.
    """
    rows = made_of.charted(section)
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    lanes = [_lanes(row) for row in shown]
    used = {name for each in lanes for lane in each for name, _ in lane}
    foot = and_more(_FOOT, len(rows) - len(shown))
    named = [(f"{words.work(rows[0])}: parts of a step", [words.variant(row) for row in shown])]
    with matplotlib.rc_context(style.RC):
        figure, (axes,) = stacked(named, foot, **BESIDE, room=LEGEND)
        for place, (row, each) in enumerate(zip(shown, lanes, strict=True)):
            draw(axes, place, each, style.PARTS)
            beside(axes, place, _numbers(row))
        axis(axes, numbers.tick)
        legend(figure, used, style.PARTS)
    return figure


def _lanes(row: Row) -> list[Lane]:
    known = made_of.parts_of(row) if row["parts_ratio"] is not None else ()
    upper = [(name, row[f"{name}_s"]) for name in known]
    return [upper, [("undivided", row["latency_s"])]]


def _numbers(row: Row) -> str:
    """A line for each of the two bars."""
    step = f"step {numbers.duration(row['latency_s'])}"
    if row["parts_ratio"] is None:
        return f"not taken apart\n{step}"
    parts_s = row["latency_s"] - row["parts_residual_s"]
    return f"parts {numbers.duration(parts_s)}, {numbers.share(row['parts_ratio'], 1)}\n{step}"
