"""The overhead of an operator: slopes are sorted, and overlapping intervals are marked."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.figures import slopes
from tests.helpers.drawings import names, only_axes, series_of
from tests.helpers.studies import batch_series, cpu_clocks, cuda_series, dispatch_series, record


def test_slopes_are_drawn_flattest_first(tmp_path: Path) -> None:
    chain = series_of(tmp_path, *dispatch_series())
    assert names(only_axes(slopes.draw(chain))) == ["compile", "inference_mode", "no_grad", "eager"]
    assert slopes.table(chain).rows[0][0] == "compile"


def test_without_operators_or_slopes_there_is_no_figure(tmp_path: Path) -> None:
    assert slopes.draw(series_of(tmp_path / "batch", *batch_series())) is None
    unread = [record(shape=f'{{"ops":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    assert slopes.draw(series_of(tmp_path / "unread", *unread)) is None


def test_modes_are_ordered_by_slope_and_overlaps_are_marked(tmp_path: Path) -> None:
    apart = slopes.caption(series_of(tmp_path / "apart", *dispatch_series()))
    order = [apart.index(mode) for mode in ("compile", "inference_mode", "no_grad", "eager")]
    assert order == sorted(order)
    assert apart.startswith("Dispatch per op, cheapest first: compile ")
    assert "≈" not in apart
    noisy = slopes.caption(series_of(tmp_path / "noisy", *dispatch_series(noise=0.2)))
    assert noisy.endswith("(≈: the intervals overlap).")


def test_on_cuda_host_time_is_the_overhead(tmp_path: Path) -> None:
    caption = slopes.caption(series_of(tmp_path, *cuda_series("ops")))
    assert caption.startswith("Host time per op, cheapest first: cuda-graph 200.0 ns")
    assert ", eager 5.000 µs" in caption
