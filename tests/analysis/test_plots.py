from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from analysis import style
from analysis.metrics import derived
from analysis.plots.canvas import MOST_ROWS, inline, svg
from analysis.plots.forest import _ticks, forest
from analysis.plots.latency import latency
from analysis.plots.overhead import overhead
from analysis.plots.scaling import scaling
from analysis.plots.slopes import slopes
from analysis.series import series
from bench.records import Record
from tests.analysis.studies import (
    MODES,
    batch_series,
    cpu_clocks,
    cpu_sweep,
    cuda_clocks,
    cuda_sweep,
    dispatch_series,
    not_measured,
    record,
    save,
)

Draw = Callable[[pd.DataFrame], Figure | None]


def _names(axes: Axes) -> list[str]:
    return _labelled(axes, "name")


def _labelled(axes: Axes, label: str) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_label() == label]


def _numbers(axes: Axes) -> list[str]:
    return _labelled(axes, "numbers")


def _points(axes: Axes) -> list[Line2D]:
    """The markers of values, without those beside names."""
    return [
        line for line in axes.lines
        if line.get_marker() not in ("None", None, "") and line.get_label() != "_glyph"
    ]  # fmt: skip


def _forest(records: Iterable[Record], folder: Path) -> Figure:
    figure = forest(derived(save(records, folder)))
    assert figure is not None
    return figure


def test_a_panel_per_precision_with_rows_by_family(tmp_path: Path) -> None:
    bf16, fp32 = _forest(cpu_sweep(), tmp_path).axes
    assert _names(bf16) == ["amp", "amp-compile"]
    assert _names(fp32) == ["eager", "no_grad", "inference_mode", "compile"]


def _hidden(**columns: Any) -> list[Record]:
    """A row for each reason not to be charted."""
    return [
        record("no_grad", budget="smoke", **columns),
        record("reduce-overhead", in_effect=False, **columns),
        record("max-autotune", in_effect=None, **columns),
        record("inference_mode", rounds=5, **columns),
        not_measured("amp", "failed", "why", dtype="fp32"),
        record("cuda-graph", status="wrong_result", reason="why", **columns),
    ]


@pytest.mark.parametrize("draw", [forest, latency, overhead])
def test_what_does_not_count_is_not_charted(tmp_path: Path, draw: Draw) -> None:
    clocks = cpu_clocks(357e-6, 100e-6)
    figure = draw(derived(save([record("compile", **clocks), *_hidden(**clocks)], tmp_path / "a")))
    assert [name.split()[0] for name in _names(figure.axes[0])] == ["compile"]
    assert draw(derived(save(_hidden(**clocks), tmp_path / "none"))) is None


def test_markers_stand_at_the_speedup_and_fill_says_decided(tmp_path: Path) -> None:
    figure = _forest([record("eager", speedup=1.0), record("compile", speedup=2.0)], tmp_path)
    points = _points(figure.axes[0])
    assert [np.ravel(point.get_xdata()) for point in points] == pytest.approx([1.0, 2.0])
    assert [point.get_markerfacecolor() == "none" for point in points] == [True, False]
    assert [text.split()[-1] for text in _numbers(figure.axes[0])] == ["equivalent", "faster"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.4, 4.5, [0.5, 1, 2, 4]),
        (0.95, 1.05, [0.96, 0.98, 1, 1.02, 1.04]),
        (0.5, 1.3, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3]),
        (0.185, 1.05, [0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1]),
    ],
)
def test_ticks_are_plain_numbers_that_include_one(
    low: float, high: float, expected: list[float]
) -> None:
    assert _ticks(low, high) == pytest.approx(expected)


def test_a_figure_is_limited_and_says_what_is_left_out(tmp_path: Path) -> None:
    many = [record(dtype=dtype, case_id=f"{dtype}{n}") for dtype in ("bf16", "fp32") for n in
            range(40)]  # fmt: skip
    figure = _forest(many, tmp_path)
    assert sum(len(_names(axes)) for axes in figure.axes) == MOST_ROWS
    assert any("20 more rows" in " ".join(text.get_text().split()) for text in figure.texts)


def test_equal_figures_have_equal_bytes(tmp_path: Path) -> None:
    rows = derived(save(cpu_sweep(), tmp_path))
    first, second = (forest(rows) for _ in range(2))
    assert first is not None
    assert second is not None
    assert svg(first, "one") == svg(second, "one")


def test_inline_figures_take_the_colour_of_the_page(tmp_path: Path) -> None:
    text = inline(svg(_forest(cpu_sweep(), tmp_path), "one"))
    assert text.startswith("<svg")
    assert "currentColor" in text
    assert style.INK not in text
    assert "://" not in text
    assert '<g id="' not in text


def test_every_mode_has_a_look_of_its_own(tmp_path: Path) -> None:
    rows = [
        {"mode": mode, "autocast": autocast, "compile": compiled, "graph": graph}
        for mode, (_, autocast, compiled, graph) in MODES.items()
    ]
    assert len({style.marker(row) for row in rows}) == len(MODES)
    found = {row["mode"]: style.family(row).name for row in rows}
    assert found["no_grad"] == found["inference_mode"] == "eager"
    assert found["amp-compile"] == found["max-autotune-no-cudagraphs"] == "compile"
    assert found["reduce-overhead"] == found["compile-cuda-graph"] == "compile + graphs"
    assert found["cuda-graph"] == "cuda-graph"


def test_an_overridden_preset_is_shown_as_what_it_is() -> None:
    row = {"mode": "eager[autocast=true]", "autocast": True, "compile": "none", "graph": False}
    assert style.family(row) is style.AMP
    assert style.marker(row) == style.MARKERS["eager"]


def _bars(axes: Axes) -> list[tuple[float, float]]:
    """(start, length) of each bar in microseconds, in the order of drawing."""
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    return [(bar.get_x() * 1e6, bar.get_width() * 1e6) for bar in bars]


def test_latencies_stand_at_their_median_on_a_scale_that_suits(tmp_path: Path) -> None:
    near = latency(derived(save([record("eager", 2e-4), record(latency_s=1e-4)], tmp_path)))
    (axes,) = near.axes
    assert axes.get_xscale() == "linear"
    points = _points(axes)
    assert [np.ravel(p.get_xdata())[0] for p in points] == pytest.approx([2e-4, 1e-4])
    assert _numbers(axes) == [
        "200.0 µs [199.3, 200.7]", "100.0 µs [99.7, 100.3]",
    ]  # fmt: skip
    far = derived(save([record("eager", 2e-3), record(latency_s=1e-4)], tmp_path / "far"))
    assert latency(far).axes[0].get_xscale() == "log"


def test_a_call_on_a_cpu_is_dispatch_and_then_work(tmp_path: Path) -> None:
    rows = derived(save([
        record("eager", 300e-6, 1.0, **cpu_clocks(300e-6, 200e-6)),
        record("amp", 500e-6, 0.6, **cpu_clocks(500e-6, None)),
    ], tmp_path))  # fmt: skip
    (axes,) = overhead(rows).axes
    eager_dispatch, eager_work, amp = _bars(axes)
    assert eager_dispatch == pytest.approx((0, 200))
    assert eager_work == pytest.approx((200, 100))
    assert amp == pytest.approx((0, 500), rel=1e-3)
    assert np.ravel(axes.patches[2].get_facecolor())[3] == 0  # an outline
    assert _numbers(axes) == [
        "dispatch 200 µs, 67 %", "500 µs, split unknown",
    ]  # fmt: skip


def test_on_cuda_host_and_device_have_a_bar_each(tmp_path: Path) -> None:
    rows = derived(save([
        record("eager", 132e-6, 1.0, **cuda_clocks(120e-6, 40e-6, 70e-6)),
        record("cuda-graph", 52e-6, 2.5, **cuda_clocks(8e-6, 41e-6)),
    ], tmp_path))  # fmt: skip
    (axes,) = overhead(rows).axes
    assert np.round(_bars(axes), 1).tolist() == [
        [0, 70], [70, 50], [120, 12],  # eager: dispatch, launching, waiting
        [0, 40], [40, 92],  # the device: work, waiting
        [0, 8], [8, 44], [0, 41], [41, 11],  # the graph's host is not split
    ]  # fmt: skip


def test_without_any_split_there_is_no_figure_of_it(tmp_path: Path) -> None:
    assert overhead(derived(save(cpu_sweep(), tmp_path))) is None


def test_a_line_per_mode_with_a_cross_where_dispatch_is_half(tmp_path: Path) -> None:
    (found,) = series(derived(save(batch_series(), tmp_path)))
    left, dispatch = scaling(found).axes
    lines = [line for line in left.lines if line.get_marker() != "x"]
    crosses = [line for line in left.lines if line.get_marker() == "x"]
    assert [len(lines), len(crosses), len(dispatch.lines)] == [3, 3, 3]
    assert left.get_xscale() == left.get_yscale() == "log"
    assert left.get_ylim() == dispatch.get_ylim()
    assert np.ravel(lines[0].get_ydata()) * 1e6 == pytest.approx([51, 54, 66, 114, 306])
    assert np.ravel(crosses[0].get_xdata())[0] == found.lines[0].crossing.size


def test_without_any_overhead_the_latency_is_alone(tmp_path: Path) -> None:
    unread = [record(shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    (found,) = series(derived(save(unread, tmp_path)))
    (axes,) = scaling(found).axes
    assert len(axes.lines) == 1


def test_lines_exclude_what_does_not_count(tmp_path: Path) -> None:
    spoiled = batch_series(in_effect=False)[:5]  # all of eager
    (found,) = series(derived(save([*batch_series()[5:], *spoiled], tmp_path)))
    assert sorted(line.name for line in found.lines) == ["compile", "inference_mode"]


def test_slopes_are_drawn_from_the_flattest_on(tmp_path: Path) -> None:
    (chain,) = series(derived(save(dispatch_series(), tmp_path)))
    (axes,) = slopes(chain).axes
    assert _names(axes) == ["compile", "inference_mode", "no_grad", "eager"]
    unread = [record(shape=f'{{"ops":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    (silent,) = series(derived(save(unread, tmp_path / "unread")))
    assert slopes(silent) is None


def test_figures_of_a_gpu_have_equal_bytes_every_time(tmp_path: Path) -> None:
    rows = derived(save(cuda_sweep(), tmp_path))
    for draw in (latency, overhead):
        assert svg(draw(rows), "one") == svg(draw(rows), "one")
