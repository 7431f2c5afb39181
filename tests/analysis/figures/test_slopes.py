"""The overhead of an operator: slopes are sorted, and overlapping intervals are marked."""

from __future__ import annotations

from pathlib import Path

from modescope.analysis.figures import slopes
from tests.helpers.drawings import names, only_axes, series_of
from tests.helpers.studies import batch_series, cpu_clocks, dispatch_series, record


def test_slopes_are_drawn_flattest_first(tmp_path: Path) -> None:
    chain = series_of(tmp_path, *dispatch_series())
    assert names(only_axes(slopes.draw(chain))) == ["compile", "inference_mode", "no_grad", "eager"]
    assert slopes.table(chain).rows[0][0] == "compile"


def test_without_operators_or_slopes_there_is_no_figure(tmp_path: Path) -> None:
    assert slopes.draw(series_of(tmp_path / "batch", *batch_series())) is None
    unread = [record(shape=f'{{"ops":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    assert slopes.draw(series_of(tmp_path / "unread", *unread)) is None
