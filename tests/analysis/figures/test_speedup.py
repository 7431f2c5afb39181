"""Speedups: markers are at the planted values, and the caption counts verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from modescope.analysis.figures import speedup
from modescope.analysis.figures.draw.canvas import MOST_ROWS
from modescope.analysis.figures.speedup import _ticks
from modescope.bench.records.results import Record
from tests.helpers.drawings import foot, names, numbers, points, rows_of
from tests.helpers.studies import cpu_sweep, record


def _drawn(records: Iterable[Record], folder: Path) -> Figure:
    figure = speedup.draw(rows_of(folder, *records))
    assert figure is not None
    return figure


def test_a_panel_per_precision_with_rows_by_family(tmp_path: Path) -> None:
    bf16, fp32 = _drawn(cpu_sweep(), tmp_path).axes
    assert names(bf16) == ["amp", "amp-compile"]
    assert names(fp32) == ["eager", "no_grad", "inference_mode", "compile"]


def test_markers_are_at_the_speedup_and_filled_where_decided(tmp_path: Path) -> None:
    figure = _drawn([record("eager", speedup=1.0), record("compile", speedup=2.0)], tmp_path)
    markers = points(figure.axes[0])
    assert [np.ravel(point.get_xdata()) for point in markers] == pytest.approx([1.0, 2.0])
    assert [point.get_markerfacecolor() == "none" for point in markers] == [True, False]
    assert [text.split()[-1] for text in numbers(figure.axes[0])] == ["equivalent", "faster"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.4, 4.5, [0.5, 1, 2, 4]),
        (0.95, 1.05, [0.96, 0.98, 1, 1.02, 1.04]),
        (0.5, 1.3, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.3]),
        (0.185, 1.05, [0.2, 0.3, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_plain_numbers_that_include_one(
    low: float, high: float, expected: list[float]
) -> None:
    assert _ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(0.85, 1.75), (0.91, 1.24), (0.76, 3.1), (0.97, 1.82)])
def test_labels_of_ticks_do_not_touch(tmp_path: Path, low: float, high: float) -> None:
    records = [record("inference_mode", speedup=low), record("compile", speedup=high)]
    figure = _drawn(records, tmp_path)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
    assert min(gaps) > 0.4 * boxes[0].height, "as wide as a letter"
    assert len(boxes) >= 4


@pytest.mark.full
def test_a_figure_is_limited_and_counts_the_rest(tmp_path: Path) -> None:
    many = [record(dtype=dtype, case_id=f"{dtype}{n}") for dtype in ("bf16", "fp32") for n in
            range(40)]  # fmt: skip
    figure = _drawn(many, tmp_path)
    assert sum(len(names(axes)) for axes in figure.axes) == MOST_ROWS
    assert "20 more rows" in foot(figure)


def test_without_a_trusted_row_there_is_no_caption(tmp_path: Path) -> None:
    assert speedup.caption(rows_of(tmp_path, record(in_effect=False))) is None
