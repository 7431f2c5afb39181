"""Figures over a size: the values that lines and cells are drawn at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.derive.series import grids
from modescope.analysis.figures import theme
from modescope.analysis.figures.sizes import HEATMAP, SCALING
from modescope.bench.records.cases import canonical_json
from tests.helpers.drawings import names, only_axes, panels, rows_of, series_of
from tests.helpers.studies import at_size, batch_series, cpu_clocks, record, saving_steps


def test_a_heatmap_has_a_number_in_each_measured_cell(tmp_path: Path) -> None:
    records = [at_size("compile", 2.0, 1), at_size("compile", 0.5, 8), at_size("eager", 1.0, 8)]
    axes = only_axes(HEATMAP.draw(grids(rows_of(tmp_path, *records))))
    assert names(axes) == ["eager", "compile"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8"]
    assert [(text.get_text(), text.get_fontweight()) for text in axes.texts] == [
        ("1.00", "normal"), ("2.00", "bold"), ("0.50", "bold"),
    ]  # fmt: skip
    (mesh,) = axes.collections
    faster, slower = np.ravel(mesh.norm(np.array([2.0, 0.5])))
    assert faster - 0.5 == pytest.approx(0.5 - slower)  # equally strong colours


def test_of_many_sizes_some_are_drawn_and_all_are_in_the_table(tmp_path: Path) -> None:
    found = grids(rows_of(tmp_path, *batch_series([2**power for power in range(13)])))
    counts = []
    for width in (theme.WIDTH, theme.NARROW):
        with theme.look(width):
            axes = only_axes(HEATMAP.draw(found))
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert (labels[0], labels[-1]) == ("1", "4096")
        counts.append(len(labels))
    assert 13 > counts[0] > counts[1] > 2
    assert len(HEATMAP.table(found).titles) == 2 + 13
    assert HEATMAP.draw([]) is None


def test_scaling_draws_latency_and_overhead_on_one_scale(tmp_path: Path) -> None:
    found = panels(SCALING.draw(series_of(tmp_path, *batch_series())))
    assert list(found) == ["Latency", "Dispatch"]
    latency, dispatch = found.values()
    assert latency.get_ylim() == dispatch.get_ylim()
    assert (latency.get_xscale(), latency.get_yscale()) == ("log", "log")
    assert [len(axes.lines) for axes in (latency, dispatch)] == [3, 3]
    assert np.ravel(latency.lines[0].get_xdata()) == pytest.approx([1, 4, 16, 64, 256])
    assert np.ravel(latency.lines[0].get_ydata()) / 1e-6 == pytest.approx([51, 54, 66, 114, 306])


def test_on_a_phone_panels_stand_below_each_other(tmp_path: Path) -> None:
    for width, is_narrow in ((theme.WIDTH, False), (theme.NARROW, True)):
        with theme.look(width):
            figure = SCALING.draw(series_of(tmp_path / f"{width}", *batch_series()))
        assert figure is not None
        first, second = (axes.get_subplotspec() for axes in panels(figure).values())
        assert first is not None
        assert second is not None
        assert (first.colspan == second.colspan, figure.get_figwidth()) == (is_narrow, width)


def test_unknown_overhead_has_no_panel_and_saved_bytes_have_one(tmp_path: Path) -> None:
    unread = [record(shape=f'{{"batch":{n}}}', **cpu_clocks(1e-4, None)) for n in (1, 2, 3)]
    assert list(panels(SCALING.draw(series_of(tmp_path / "unread", *unread)))) == ["Latency"]
    saving = series_of(tmp_path / "saved", *saving_steps("eager", (1024, 2048, 4096)))
    saved = panels(SCALING.draw(saving))["Saved bytes"]
    assert np.ravel(saved.lines[0].get_ydata()) == pytest.approx([1024, 2048, 4096])


def test_a_panel_without_values_does_not_stretch_the_scale_of_the_others(tmp_path: Path) -> None:
    amp = [
        record("amp", 1e-3 * batch, 2.0, batch=batch,
               shape=canonical_json({"batch": batch, "seq": 64}), **cpu_clocks(1e-3 * batch, None))
        for batch in (1, 4, 16, 64, 256)
    ]  # fmt: skip
    found = panels(SCALING.draw(series_of(tmp_path, *batch_series(), *amp)))
    low, high = found["Latency, bf16"].get_ylim()
    assert 1e-6 < low < high < 1
