"""Figures of training: bars and lines stand where the numbers say, and only what counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import plotted, plotted_training, style
from analysis.metrics import derived
from analysis.plots.activations import activations
from analysis.plots.canvas import inline, svg
from analysis.plots.memory import memory
from analysis.plots.training import parts
from analysis.series import series
from bench.records import Record
from tests.analysis.passes import cpu_training, cuda_training, pool, trained
from tests.analysis.studies import record, save, training
from tests.analysis.test_pass_plots import SPOILED

US = 1e-6


def _axes(figure: Figure | None) -> Axes:
    assert figure is not None
    (axes,) = figure.axes
    return axes


def _bars(axes: Axes, unit: float) -> list[tuple[float, float]]:
    """(start, length) of each bar, in the order of drawing."""
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    return [(round(bar.get_x() / unit, 3), round(bar.get_width() / unit, 3)) for bar in bars]


def _heights(axes: Axes) -> list[float]:
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    return [round(bar.get_y() + bar.get_height() / 2, 3) for bar in bars]


def _names(axes: Axes) -> list[str]:
    return _labelled(axes, "name")


def _labelled(axes: Axes, label: str) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_label() == label]


def _texts(axes: Axes) -> list[str]:
    return _labelled(axes, "numbers")


def _foot(axes: Axes) -> str:
    return " ".join(" ".join(text.get_text().split()) for text in axes.figure.texts)


def _parts(folder: Path, *records: Record) -> Figure | None:
    return parts(derived(save(records, folder)))


def test_parts_are_stacked_over_the_undivided_step(tmp_path: Path) -> None:
    axes = _axes(_parts(
        tmp_path,
        training("amp", 1000 * US, 0.8, (300 * US, 400 * US, 200 * US, 50 * US)),
        training("eager", 1000 * US, 1.0, (400 * US, 600 * US, 200 * US)),
    ))  # fmt: skip
    assert [name.split()[0] for name in _names(axes)] == ["eager", "amp"]
    assert _bars(axes, US) == [
        (0, 400), (400, 600), (1000, 200), (0, 1000),
        (0, 300), (300, 400), (700, 200), (900, 50), (0, 1000),
    ]  # fmt: skip
    upper, lower = _heights(axes)[0], _heights(axes)[3]
    assert upper < 0 < lower  # the first row is at 0, and y points downwards
    assert _texts(axes) == [
        "step 1.00 ms, parts 120 % of it", "step 1.00 ms, parts 95 % of it",
    ]  # fmt: skip


def test_a_step_that_could_not_be_taken_apart_is_shown_undivided(tmp_path: Path) -> None:
    graph = training("cuda-graph", 500 * US, 2.0, parts_s=None)
    axes = _axes(_parts(tmp_path, training("eager", 1000 * US, 1.0), graph))
    assert _bars(axes, US)[-1] == (0, 500)
    assert _heights(axes)[-1] > 1  # the place of the lower bar
    assert _texts(axes)[-1] == "step 500 µs, not taken apart"


def test_without_any_parts_there_is_no_figure(tmp_path: Path) -> None:
    assert _parts(tmp_path / "graph", training("cuda-graph", parts_s=None)) is None
    assert _parts(tmp_path / "inference", record("eager"), record("compile")) is None


def _memory(folder: Path, *records: Record) -> Axes:
    return _axes(memory(derived(save(records, folder))))


def test_gradients_are_held_between_steps_and_away_at_the_peak(tmp_path: Path) -> None:
    # held: 1000 weights, 10 inputs, 500 state, 1000 gradients; the peak is 300 above that, and
    # 1300 of it are there once gradients are dropped: 1100 saved and 200 of whatever else
    axes = _memory(tmp_path, training("eager", **trained(1000, 300, 1100, state=500)))
    assert _bars(axes, 1) == [
        (0, 1000), (1000, 10), (1010, 500), (1510, 1100), (2610, 200),
        (0, 1000), (1000, 10), (1010, 500), (1510, 1000),
    ]  # fmt: skip
    assert _texts(axes) == ["peak 2.74 KiB"]
    assert "lower bar: between two steps" in _foot(axes)


def test_a_graph_s_pool_keeps_the_room_of_gradients(tmp_path: Path) -> None:
    replayed = trained(1000, 0, 1100) | pool(1600, 1000) | {"device": "cuda"}
    axes = _memory(tmp_path, training("cuda-graph", parts_s=None, **replayed))
    assert _bars(axes, 1) == [(0, 1000), (1000, 10), (1010, 1000), (2010, 600)]
    assert "between two" not in _foot(axes)


def _activations(folder: Path, records: Sequence[Record]) -> Axes:
    (found,) = series(derived(save(records, folder)))
    return _axes(activations(found))


def test_saved_bytes_are_lines_over_the_batch(tmp_path: Path) -> None:
    axes = _activations(tmp_path, [one for n in (1, 8, 64) for one in cpu_training(n)])
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines) == [
        "eager fp32", "amp bf16", "compile fp32", "amp-compile bf16", "in proportion to batch",
    ]  # fmt: skip
    points = {name: np.ravel(line.get_ydata()) / 1024 for name, line in lines.items()}
    assert points["eager fp32"].tolist() == [640, 5120, 40960]
    assert points["amp bf16"].tolist() == [320 + 6144, 2560 + 6144, 20480 + 6144]
    # what grows in proportion ends in the first mode's last point: batch times 640 KiB
    assert points["in proportion to batch"].tolist() == [640, 40960]
    assert np.ravel(lines["eager fp32"].get_xdata()).tolist() == [1, 8, 64]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert lines["amp bf16"].get_color() == style.AMP.colour


def test_where_nothing_is_saved_there_is_no_figure(tmp_path: Path) -> None:
    steps = [training(shape=f'{{"batch":{n}}}', saved_activation_bytes=0) for n in (1, 8, 64)]
    (found,) = series(derived(save(steps, tmp_path)))
    assert activations(found) is None


@pytest.mark.parametrize("draw", [parts, memory])
@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_what_does_not_count_is_not_charted(
    tmp_path: Path, draw: Callable[[pd.DataFrame], Figure | None], spoiled: dict[str, Any]
) -> None:
    held = trained(1000, 300, 1100)
    good = [training(mode, **held) for mode in ("eager", "compile")]
    bad = training("amp", **(held | spoiled))
    axes = _axes(draw(derived(save([*good, bad], tmp_path / "some"))))
    assert [name.split()[0] for name in _names(axes)] == ["eager", "compile"]
    alone = [training(mode, **(held | spoiled)) for mode in ("eager", "compile")]
    assert draw(derived(save(alone, tmp_path / "none"))) is None


def test_spoiled_sizes_are_no_points(tmp_path: Path) -> None:
    steps = [one for n in (1, 8, 64, 128) for one in cpu_training(n)[:1]]
    shape: dict[str, Any] = {"shape": '{"batch":256,"seq":64}', "batch": 256}
    wrong = training("eager", in_effect=False, saved_activation_bytes=4096, **shape)
    axes = _activations(tmp_path, [*steps, wrong])
    assert np.ravel(axes.lines[0].get_xdata()).tolist() == [1, 8, 64, 128]


@pytest.mark.parametrize("study", [cpu_training, cuda_training])
def test_equal_figures_have_equal_bytes_and_take_the_ink_of_a_page(
    tmp_path: Path, study: Callable[[], list[Record]]
) -> None:
    rows = derived(save(study(), tmp_path))
    first, second = parts(rows), parts(rows)
    assert first is not None
    assert second is not None
    text = inline(svg(first, "one"))
    assert text == inline(svg(second, "one"))
    assert "currentColor" in text
    assert style.INK not in text
    (axes,) = first.axes
    bars = {to_hex(bar.get_facecolor()) for bar in axes.patches if isinstance(bar, Rectangle)}
    assert bars.isdisjoint(family.colour for family in style.FAMILIES)  # parts, not modes


def test_the_numbers_of_a_step_are_those_of_both_bars(tmp_path: Path) -> None:
    step = training("eager", 1000 * US, 1.0, (400 * US, 600 * US, 200 * US), spread=0)
    graph = training("cuda-graph", 500 * US, 2.0, parts_s=None, spread=0)
    table = plotted_training.parts(derived(save([step, graph], tmp_path)))
    eager, undivided = (dict(zip(table.titles, cells, strict=True)) for cells in table.rows)
    assert eager["backward [95 %]"].startswith("600.0 µs [")
    assert eager["parts of the step"] == "120 %"
    assert "GradScaler [95 %]" not in eager
    assert undivided["backward [95 %]"] == undivided["parts of the step"] == "–"
    assert undivided["the step, undivided [95 %]"].startswith("500")


def test_the_numbers_of_memory_say_what_is_not_known_at_the_peak(tmp_path: Path) -> None:
    held = trained(1000, 300, 1100, state=500)
    table = plotted.memories(derived(save([training("eager", **held)], tmp_path)))
    peak, between = (dict(zip(table.titles, cells, strict=True)) for cells in table.rows)
    assert [peak["when"], between["when"]] == ["peak", "between two steps"]
    assert [peak["gradients"], between["gradients"]] == ["–", "1000 B"]
    assert [peak["saved for backward"], between["saved for backward"]] == ["1.07 KiB", "0 B"]
    assert [peak["in all"], between["in all"]] == ["2.74 KiB", "2.45 KiB"]


def test_the_numbers_of_saved_activations_have_each_size(tmp_path: Path) -> None:
    (found,) = series(derived(save([o for n in (1, 8, 64) for o in cpu_training(n)], tmp_path)))
    table = plotted_training.saved_activations(found)
    assert table.titles == ("mode", "batch 1", "batch 8", "batch 64")
    assert table.rows[0] == ("eager fp32", "640 KiB", "5.00 MiB", "40.0 MiB")
