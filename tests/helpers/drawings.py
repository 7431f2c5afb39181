"""Reads what a drawn figure shows: panels, names, numbers and bars."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from modescope.analysis.derive.series import SizeSeries, series
from modescope.bench.records.results import Record
from tests.helpers.derivations import table_of
from tests.helpers.studies import content, save

US = 1e-6


_known: dict[str, pd.DataFrame] = {}  # the tests of a file draw the same few studies


def rows_of(folder: Path, *records: Record) -> pd.DataFrame:
    """The derived table of a study with these records."""
    if (text := content(records)) not in _known:
        _known[text] = table_of(save(records, folder))
    return _known[text].copy()


def series_of(folder: Path, *records: Record) -> SizeSeries:
    """The only series of these records; fails if there is not exactly one."""
    (found,) = series(rows_of(folder, *records))
    return found


def panels(figure: Figure | None) -> dict[str, Axes]:
    """The panels of a figure by their titles; untitled ones share the empty title."""
    assert figure is not None
    return {axes.get_title(loc="left"): axes for axes in figure.axes}


def only_axes(figure: Figure | None) -> Axes:
    """The axes of a figure with one panel."""
    (axes,) = panels(figure).values()
    return axes


def names(axes: Axes) -> list[str]:
    """The names of a panel's rows, from the top."""
    return [label.get_text() for label in axes.get_yticklabels()]


def numbers(axes: Axes) -> list[str]:
    """The texts at the right end of a panel's rows."""
    (right,) = axes.child_axes
    return [label.get_text() for label in right.get_yticklabels()]


def bars(axes: Axes, unit: float = 1.0) -> dict[str, list[tuple[float, float]]]:
    """Row's name -> (start, length) of each of its bars, times `unit`, from the left."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names(axes)}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        name = names(axes)[round(bar.get_y() + bar.get_height() / 2)]
        found[name].append((round(bar.get_x() * unit, 2), round(bar.get_width() * unit, 2)))
    return {name: sorted(parts) for name, parts in found.items()}
