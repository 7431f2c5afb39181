"""Latencies: points are at the median, and the caption names the shortest and what overlaps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.figures import latency
from tests.helpers.drawings import cells, numbers, only_axes, points, rows_of
from tests.helpers.studies import record


def test_latencies_are_at_their_median_on_a_linear_or_logarithmic_scale(tmp_path: Path) -> None:
    near = rows_of(tmp_path / "near", record("eager", 2e-4, 1.0), record("compile", 1e-4, 2.0))
    axes = only_axes(latency.draw(near))
    assert axes.get_xscale() == "linear"
    at = [np.ravel(point.get_xdata())[0] for point in points(axes)]
    assert at == pytest.approx([2e-4, 1e-4])
    assert numbers(axes) == ["200 µs [199, 201]", "100.0 µs [99.3, 100.7]"]
    far = rows_of(tmp_path / "far", record("eager", 2e-3, 1.0), record("compile", 1e-4, 20.0))
    assert only_axes(latency.draw(far)).get_xscale() == "log"


@pytest.mark.parametrize(("slow_s", "expected"), [(70e-6, True), (41e-6, False)])
def test_a_machine_that_changed_its_pace_is_stated(
    tmp_path: Path, slow_s: float, expected: bool
) -> None:
    paces = (40e-6, slow_s) * 20
    rows = rows_of(tmp_path, record(pace_rounds_s=paces), record("eager", pace_rounds_s=None))
    caption = latency.caption(rows)
    assert caption is not None
    assert ("At times the machine ran at 57 % of its pace" in caption) is expected
    compiled = cells(latency.table(rows), "compile", "fp32")
    assert compiled["slowest pace"] == ("57 %" if expected else "98 %")
    assert compiled["at full pace"] != "–"
    assert cells(latency.table(rows), "eager", "fp32")["slowest pace"] == "–"


def test_without_a_trusted_row_there_is_no_caption(tmp_path: Path) -> None:
    assert latency.caption(rows_of(tmp_path, record(in_effect=False))) is None


def test_a_row_without_single_calls_has_no_percentile(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, record(latency_calls_s=None), record("eager", speedup=1.0))
    assert cells(latency.table(rows), "compile", "fp32")["p95"] == "–"
