"""The contents of a drawn figure: names, numbers, bars, points and foot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from modescope.analysis.derive.registry import derived
from modescope.analysis.derive.series import Series, series
from modescope.analysis.format.tables import Table
from modescope.bench.records.results import Record
from tests.helpers.studies import content, save

US = 1e-6


_known: dict[str, pd.DataFrame] = {}  # the tests of a file draw the same few studies


def rows_of(folder: Path, *records: Record) -> pd.DataFrame:
    """The derived table of a study of these records."""
    if (text := content(records)) not in _known:
        _known[text] = derived(save(records, folder))
    return _known[text].copy()


def caption_of(
    caption: Callable[[pd.DataFrame], str | None], folder: Path, *records: Record
) -> str:
    """The text of a figure's `caption` for a study of these records."""
    text = caption(rows_of(folder, *records))
    assert text is not None
    return text


def series_of(folder: Path, *records: Record) -> Series:
    """The only series among these records."""
    (found,) = series(rows_of(folder, *records))
    return found


def only_axes(figure: Figure | None) -> Axes:
    """The axes of a figure with one panel."""
    assert figure is not None
    (axes,) = figure.axes
    return axes


def names(axes: Axes) -> list[str]:
    """The names of its rows, from the top."""
    return _labelled(axes, "name")


def numbers(axes: Axes) -> list[str]:
    """The texts at the right end of its rows."""
    return _labelled(axes, "numbers")


def _labelled(axes: Axes, label: str) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_label() == label]


def points(axes: Axes) -> list[Line2D]:
    """The markers of values, without those beside names."""
    return [
        line for line in axes.lines
        if line.get_marker() not in ("None", None, "") and line.get_label() != "_glyph"
    ]  # fmt: skip


def rectangles(axes: Axes) -> list[Rectangle]:
    """The bars, in the order of drawing."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def bars(axes: Axes, unit: float = 1.0) -> list[tuple[float, float]]:
    """(start, length) of each bar in `unit`, in the order of drawing."""
    return [
        (round(bar.get_x() / unit, 3), round(bar.get_width() / unit, 3)) for bar in rectangles(axes)
    ]


def opacity(axes: Axes, place: int) -> float:
    """The opacity of a bar; 0 for an outline."""
    return float(np.ravel(axes.patches[place].get_facecolor())[3])


def foot(figure: Any) -> str:
    """All text outside of the panels, on one line."""
    return " ".join(" ".join(text.get_text().split()) for text in figure.texts)


def cells(table: Table, *leading: str) -> dict[str, str]:
    """The line that begins with these cells, by its titles."""
    (line,) = (line for line in table.rows if line[: len(leading)] == leading)
    return dict(zip(table.titles, line, strict=True))
