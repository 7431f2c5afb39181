"""Which parts of a training step take its time, mode by mode."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from analysis import numbers, style, words
from analysis import training as made_of
from analysis.plots.bars import Lane, axis, bars
from analysis.plots.canvas import MOST_ROWS, Entry, and_more
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
    drawn = [
        (Entry(words.variant(row), _numbers(row), row), _lanes(row)) for row in rows[:MOST_ROWS]
    ]
    foot = and_more(_FOOT, len(rows) - len(drawn))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Parts of a training step", drawn, style.PARTS, f"{foot}\n{words.work(rows[0])}"
        )
        axis(axes, numbers.tick)
    return stack.figure


def _lanes(row: Row) -> list[Lane]:
    known = made_of.parts_of(row) if row["parts_ratio"] is not None else ()
    upper = [(name, row[f"{name}_s"]) for name in known]
    return [upper, [("undivided", row["latency_s"])]]


def _numbers(row: Row) -> str:
    step = f"step {numbers.duration(row['latency_s'])}"
    if row["parts_ratio"] is None:
        return f"{step}, not taken apart"
    return f"{step}, parts {numbers.share(row['parts_ratio'], 1)} of it"
