"""The parts of a training step, by mode."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import Look, Parts, stacked
from modescope.analysis.figures.theme import table_of
from modescope.analysis.format import cells, numbers, style
from modescope.analysis.format.columns import Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.summary import STEP_PARTS, parts_of

CAPTION = (
    "The parts of a step, timed separately and each waited for, so that they may add up to more "
    "than the whole step, which stands beside them."
)
# Each part has the colour of the memory that it needs.
_LOOKS = {
    "forward": Look("forward and loss", theme.PALE),
    "backward": Look("backward", style.ACTIVATIONS),
    "optimizer": Look("optimizer", style.OPTIMIZER),
    "scaler": Look("GradScaler", style.OPTIMIZER, "////"),
    "undivided": Look("not divided", None, "////"),
}


def draw(section: pd.DataFrame) -> Figure | None:
    """A bar per mode of a SECTION; None if no step of it was timed by parts."""
    rows = theme.charted(section)
    if all(row["parts_ratio"] is None for row in rows):
        return None
    panels = theme.panels("Parts of a training step", rows, _numbers)
    figure, _ = stacked(panels, [list(map(_parts, panel.rows)) for panel in panels], _LOOKS, rows)
    return figure


def _parts(row: Row) -> Parts:
    if row["parts_ratio"] is None:
        return {"undivided": row["latency_paired_s"]}
    return {name: row[f"{name}_paired_s"] for name in parts_of(row)}


def _numbers(row: Row) -> str:
    return f"whole step {numbers.duration(row['latency_paired_s'])}"


def table(section: pd.DataFrame) -> Table:
    """The share of each part in the step, the whole step, and the sum of the parts."""
    return table_of("Parts", section, _COLUMNS)


def _part(name: str) -> Column:
    title = f"{_LOOKS[name].name} ÷ step [95 %]"
    return Column(title, partial(cells.share, name=f"{name}_share"), optional=True)


_COLUMNS = (
    *map(_part, STEP_PARTS),
    Column("whole step [95 %]", cells.latency),
    Column("sum of parts ÷ step [95 %]", partial(cells.share, name="parts_ratio")),
)
