"""Speedups by mode and size: colours, caption and cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from modescope.analysis.derive.series import Grid, grids
from modescope.analysis.figures import heatmap
from modescope.analysis.figures.heatmap import MOST_PANELS, MOST_SIZES
from modescope.bench.records.results import Record
from tests.helpers.drawings import foot, numbers, only_axes, rectangles, rows_of
from tests.helpers.studies import at_size, batch_series


def _grids(folder: Path, records: Sequence[Record]) -> list[Grid]:
    return grids(rows_of(folder, *records))


def _drawn(folder: Path, records: Sequence[Record]) -> Figure:
    figure = heatmap.draw(_grids(folder, records))
    assert figure is not None
    return figure


def test_twice_and_half_as_fast_have_equally_strong_colours(tmp_path: Path) -> None:
    figure = _drawn(tmp_path, [at_size("compile", 2.0, 1), at_size("compile", 0.5, 8)])
    axes = only_axes(figure)
    colours = [np.ravel(cell.get_facecolor())[:3] for cell in axes.patches]
    assert len(colours) == 2
    assert colours[0][2] > colours[0][1]  # purple: more blue than green
    assert colours[1][0] > colours[1][2]  # orange: more red than blue
    cells = [text for text in axes.texts if text.get_label() not in ("name", "numbers")]
    assert [text.get_text() for text in cells] == ["2.00×", "0.50×"]
    assert [text.get_fontweight() for text in cells] == ["bold", "bold"]


def test_an_empty_cell_shows_a_dash_without_colour(tmp_path: Path) -> None:
    records = [at_size("compile", 2.0, 1), at_size("compile", 2.0, 8), at_size("no_grad", 1.0, 1)]
    axes = only_axes(_drawn(tmp_path, records))
    assert len(rectangles(axes)) == 3
    assert [text.get_text() for text in axes.texts].count("–") == 1


def test_sizes_and_panels_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    wide = _drawn(tmp_path, batch_series([2**power for power in range(12)]))
    labels = [label.get_text() for label in wide.axes[0].get_xticklabels()]
    assert len(labels) == MOST_SIZES
    assert (labels[0], labels[-1]) == ("1", "2048")
    assert "4 sizes not drawn" in numbers(wide.axes[0])
    many = [at_size("compile", 1.5, b, s) for b in (1, 8) for s in range(1, MOST_PANELS + 3)]
    figure = _drawn(tmp_path / "many", many)
    assert len(figure.axes) == MOST_PANELS
    assert "2 more rows are in the table only" in foot(figure)


def test_the_table_lists_every_size_of_every_grid(tmp_path: Path) -> None:
    records = [at_size("compile", 1.5, 1), at_size("compile", 1.6, 8), at_size("amp", 2.0, 8)]
    table = heatmap.table(_grids(tmp_path, [*records, at_size("amp", 2.0, 16)]))
    assert table.titles == ("mode", "comparison", "batch 1", "batch 8", "batch 16")
    amp, compiled = (line[2:] for line in table.rows)
    assert [cell.partition("×")[0] for cell in amp] == ["–", "2.00", "2.00"]
    assert [cell.partition("×")[0] for cell in compiled] == ["1.500", "1.60", "–"]


def test_no_grid_is_no_figure() -> None:
    assert heatmap.draw([]) is None


@pytest.mark.parametrize("speedup", [1e-3, 1e3])
def test_the_colour_scale_covers_every_speedup(tmp_path: Path, speedup: float) -> None:
    figure = _drawn(tmp_path, [at_size("compile", speedup, 1), at_size("compile", 1.0, 8)])
    assert len(figure.axes[0].patches) == 2
