"""Device work: ends are at the clocks' values, and the caption names the uncertainty."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.figures import fusion
from tests.helpers.drawings import US, cells, names, numbers, only_axes, points, rows_of
from tests.helpers.pass_columns import cuda_passes, profiled
from tests.helpers.studies import cpu_clocks, cuda_clocks, record

EAGER = 100e-6  # the baseline's latency


def test_a_dumbbell_spans_the_work_of_eager_and_of_the_mode(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("inference_mode", 112e-6, 1.2, **cuda_clocks(1e-4, 40e-6), **profiled(42, 38e-6)),
        record("compile", 134.4e-6 / 1.8, 1.8, **cuda_clocks(6e-5, 25e-6), **profiled(9, 24e-6)),
        record("cuda-graph", 134.4e-6 / 2.5, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )
    axes = only_axes(fusion.draw(rows))
    assert names(axes) == ["compile fp32", "cuda-graph fp32"]
    ends = [float(np.ravel(point.get_xdata())[0]) / US for point in points(axes)]
    assert ends == pytest.approx([40, 25, 40, 41])
    # the graph was not profiled, so only eager's end has a number
    texts = [text.get_text() for text in axes.texts]
    assert [text for text in texts if text.isdigit()] == ["9", "42", "42"]
    assert numbers(axes)[0].startswith("1.60× [")


def test_the_table_shows_work_beside_that_of_eager(tmp_path: Path) -> None:
    compiled = cells(fusion.table(rows_of(tmp_path, *cuda_passes())), "compile", "fp32")
    assert (compiled["work"], compiled["eager's work"]) == ("25.0 µs", "40.0 µs")
    assert (compiled["kernels"], compiled["eager's kernels"]) == ("9", "42")


def test_both_ends_of_a_pair_refer_to_the_same_baseline(tmp_path: Path) -> None:
    eager = record("inference_mode", 90e-6, 100 / 90, **cpu_clocks(90e-6, 30e-6))
    compiled = record("compile", 50e-6, 2.0, **cpu_clocks(50e-6, 10e-6))
    (pair,) = fusion.pairs(rows_of(tmp_path, eager, compiled))
    assert pair.row["work_s"] == pytest.approx(40e-6, rel=1e-3)
    assert pair.reference_work_s == pytest.approx(60e-6, rel=1e-3)
    assert pair.reference["mode"] == "inference_mode"
