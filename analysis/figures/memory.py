"""The parts of the memory at the peak of a call, by mode."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive import memory
from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import Look, stacked
from modescope.analysis.format import numbers, style
from modescope.analysis.format.columns import NAMING
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table

CAPTION = (
    "What a call holds at its peak: grey parts stay between calls, brown ones are kept for the "
    "backward or are cast weights, and the outline is the rest of the call."
)
_LOOKS = {
    "weights": Look("weights", theme.PALE),
    "inputs": Look("inputs", "#57606a"),
    "state": Look("optimizer state", style.OPTIMIZER),
    "gradients": Look("gradients", style.OPTIMIZER, "////"),
    "kept": Look("other resident", theme.PALE, "||||"),  # on CUDA mostly the workspace of cuBLAS
    "pool": Look("reserved by graph pool", None, "xxxx"),
    "saved": Look("saved for backward", style.ACTIVATIONS),
    "copies": Look("cast weights", style.ACTIVATIONS, "////"),
    "step": Look("rest of the call", None),
}
_BARS = ("peak", "between steps")


def draw(section: pd.DataFrame) -> Figure | None:
    """A bar per mode of a SECTION; None if no trusted row has a known peak."""
    rows = _with_peak(section)
    if not rows:
        return None
    panels = theme.panels("Memory at the peak of a call", rows, _numbers)
    parts = [[dict(memory.stack(row)) for row in panel.rows] for panel in panels]
    figure, _ = stacked(panels, parts, _LOOKS, rows, size=True)
    return figure


def _numbers(row: Row) -> str:
    return numbers.size(row["peak_bytes"])


def _with_peak(section: pd.DataFrame) -> list[Row]:
    return [row for row in theme.charted(section) if row["peak_bytes"] is not None]


def table(section: pd.DataFrame) -> Table:
    """The parts of each peak, and for training of the memory between two steps."""
    rows = _with_peak(section)
    bars_of_rows = [
        (row, when, dict(lane))
        for row in rows
        for when, lane in zip(_BARS, memory.lanes(row), strict=False)
    ]
    used = [name for name in _LOOKS if any(name in parts for _, _, parts in bars_of_rows)]
    two = len(bars_of_rows) > len(rows)
    lines = tuple(
        (
            *(column.cell(row) for column in NAMING),
            *((when,) if two else ()),
            *(
                numbers.size(parts.get(part, memory.without(row, part, when == _BARS[0])))
                for part in used
            ),
            numbers.size(sum(parts.values())),
            numbers.size(row["setup_peak_bytes"] if when == _BARS[0] else None),
        )
        for row, when, parts in bars_of_rows
    )
    naming = (*(c.title for c in NAMING), *(("when",) if two else ()))
    named = (_LOOKS[part].name for part in used)
    return Table("Memory", (*naming, *named, "total", "first-call peak"), len(naming), lines)
