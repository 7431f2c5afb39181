"""Figures of the passes after timing: parts stand where the numbers say, and only what counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import style
from analysis.metrics import derived
from analysis.plots.canvas import inline, svg
from analysis.plots.fusion import fusion
from analysis.plots.memory import memory
from analysis.plots.overhead import overhead
from analysis.plots.waterfall import waterfall
from bench.records import Record
from tests.analysis.passes import cpu_passes, cuda_passes, pool, profiled
from tests.analysis.passes import memory as planted
from tests.analysis.studies import cpu_clocks, cuda_clocks, record, save

Draw = Callable[[pd.DataFrame], Figure | None]
SURE: dict[str, Any] = {"spread": 0.002}


def _axes(draw: Draw, folder: Path, *records: Record) -> Axes:
    figure = draw(derived(save(records, folder)))
    assert figure is not None
    (axes,) = figure.axes
    return axes


def _names(axes: Axes) -> list[str]:
    return _labelled(axes, "name")


def _labelled(axes: Axes, label: str) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_label() == label]


def _bars(axes: Axes, unit: float) -> list[tuple[float, float]]:
    """(start, length) of each bar, in the order of drawing."""
    bars = [bar for bar in axes.patches if isinstance(bar, Rectangle)]
    return [(bar.get_x() / unit, bar.get_width() / unit) for bar in bars]


def _texts(axes: Axes) -> list[str]:
    return _labelled(axes, "numbers")


def _fill(axes: Axes, place: int) -> float:
    """How opaque a bar is: 0 where it is an outline."""
    return float(np.ravel(axes.patches[place].get_facecolor())[3])


def test_a_waterfall_falls_from_eager_to_the_floor(tmp_path: Path) -> None:
    floor: dict[str, Any] = {
        "flops": 4,
        "least_bytes": 2,
        "ceiling_flops_per_s": 2e5,
        "ceiling_bytes_per_s": 1e6,
    }
    axes = _axes(
        waterfall, tmp_path,
        record("eager", 100e-6, 1.0, **SURE),
        record("inference_mode", 99.9e-6, 1.001, **SURE),
        record("compile", 50e-6, 2.0, **SURE, **floor),
        record("reduce-overhead", 60e-6, 100 / 60, **SURE, **floor),
    )  # fmt: skip
    assert _names(axes) == ["eager", "inference_mode", "compile", "reduce-overhead", "floor"]
    bars = np.round(_bars(axes, 1e-6), 0).tolist()
    assert bars == [[0, 100], [100, 0], [100, -50], [50, 10], [0, 20], [20, 40]]
    assert [_fill(axes, place) > 0 for place in range(6)] == [True, False, True, True, True, False]
    assert axes.patches[3].get_hatch() == "////"  # it adds
    assert _texts(axes)[2:] == ["50.0 µs  (−49.9 µs)", "60.0 µs  (+10.0 µs)", "20.0 µs, compute"]


@pytest.mark.parametrize("floor_s", [60e-6, 49e-6])  # above the last level; above its work alone
def test_a_floor_that_was_beaten_is_not_drawn(tmp_path: Path, floor_s: float) -> None:
    beaten: dict[str, Any] = {
        "flops": 0,
        "least_bytes": 1000,
        "ceiling_flops_per_s": 1.0,
        "ceiling_bytes_per_s": 1000 / floor_s,
    }
    fast = record("compile", 50e-6, 2.0, **SURE, **beaten, **cpu_clocks(50e-6, 5e-6))
    axes = _axes(waterfall, tmp_path, record("eager", 100e-6, 1.0, **SURE), fast)
    assert _names(axes) == ["eager", "compile"]
    assert np.round(_bars(axes, 1e-6), 0).tolist() == [[0, 100], [100, -50]]


def test_a_dumbbell_reaches_from_eager_s_work_to_the_mode_s(tmp_path: Path) -> None:
    axes = _axes(
        fusion, tmp_path,
        record("inference_mode", 112e-6, 1.2, **cuda_clocks(1e-4, 40e-6), **profiled(42, 38e-6)),
        record("compile", 72e-6, 1.8, **cuda_clocks(6e-5, 25e-6), **profiled(9, 24e-6)),
        record("cuda-graph", 52e-6, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )  # fmt: skip
    assert _names(axes) == ["compile fp32", "cuda-graph fp32"]
    points = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
    points = [point for point in points if point.get_label() != "_glyph"]
    ends = [float(np.ravel(point.get_xdata())[0]) * 1e6 for point in points]
    assert ends == pytest.approx([40, 25, 40, 41])
    # the graph was not profiled, so eager's end alone has a number
    texts = [text.get_text() for text in axes.texts]
    assert [text for text in texts if text.isdigit()] == ["9", "42", "42"]
    assert _texts(axes)[0].startswith("1.60× [")


@pytest.mark.parametrize(
    ("dispatch_us", "kernels_us", "start", "told"),
    [
        (100, 210, 90, "dispatch 100 µs, 33 %, profile checks nothing"),
        (100, 400, 0, "dispatch 100 µs, 33 %, profile checks nothing"),
        (30, 280, 20, "dispatch 30.0 µs, 10 %"),
    ],
)
def test_kernels_end_with_the_call_on_a_cpu(
    tmp_path: Path, dispatch_us: int, kernels_us: int, start: int, told: str
) -> None:
    seen = cpu_clocks(300e-6, dispatch_us * 1e-6) | profiled(9, kernels_us * 1e-6)
    axes = _axes(overhead, tmp_path, record("eager", 300e-6, 1.0, **SURE, **seen))
    bars = np.round(_bars(axes, 1e-6), 0).tolist()
    assert bars == [[0, dispatch_us], [dispatch_us, 300 - dispatch_us], [start, kernels_us]]
    assert _texts(axes) == [told]


def test_launches_pauses_and_idle_time_are_shown_on_cuda(tmp_path: Path) -> None:
    clocks = cuda_clocks(120e-6, 40e-6, 70e-6)
    seen = profiled(42, 36e-6, launches=42, graph_launches=0)
    axes = _axes(overhead, tmp_path, record("eager", 132e-6, 1.0, **clocks, **seen))
    assert np.round(_bars(axes, 1e-6), 0).tolist() == [
        [0, 70], [70, 50], [120, 12], [0, 36], [36, 4], [40, 92],
    ]  # fmt: skip
    assert _texts(axes) == ["host 120 µs, device 40.0 µs"]


def test_profiled_kernels_alone_are_no_split(tmp_path: Path) -> None:
    unsplit = record("amp", **cpu_clocks(357e-6, None), **profiled(9, 300e-6))
    assert overhead(derived(save([unsplit], tmp_path))) is None


def test_memory_is_stacked_with_what_a_pool_keeps_free(tmp_path: Path) -> None:
    eager = planted(1000, 300, 200, setup_peak_bytes=500) | pool(0, 0)
    replayed = planted(1000, 0, resident_bytes=1110, setup_peak_bytes=300) | pool(400, 100)
    axes = _axes(
        memory, tmp_path,
        record("eager", device="cuda", **eager),
        record("cuda-graph", device="cuda", **replayed),
    )  # fmt: skip
    assert _bars(axes, 1) == [
        (0, 1000), (1000, 10), (1010, 200), (1210, 100),
        (0, 1000), (1000, 10), (1010, 100), (1110, 300),
    ]  # fmt: skip
    assert axes.patches[-1].get_hatch() == "xxxx"
    # that of the graph would be at 1310, left of its peak
    (mark,) = (line for line in axes.lines if line.get_label() != "_glyph")
    assert np.ravel(mark.get_xdata()).tolist() == [1510, 1510]
    assert _texts(axes) == ["peak 1.28 KiB", "peak 1.38 KiB, 300 B free in a pool"]
    (foot,) = (text.get_text() for text in axes.figure.texts if "cuBLAS" in text.get_text())
    foot = " ".join(foot.split())
    assert foot.startswith("line: the first call peaked there or higher; kept besides: largely")


def test_what_is_kept_on_a_cpu_is_not_put_down_to_cublas(tmp_path: Path) -> None:
    axes = _axes(memory, tmp_path, record("eager", **planted(1000, 300, resident_bytes=1500)))
    assert (1010, 490) in _bars(axes, 1)
    assert not any("cuBLAS" in text.get_text() for text in axes.figure.texts)


def test_growth_of_a_process_is_never_marked_among_an_allocator_s_bytes(tmp_path: Path) -> None:
    figure = memory(derived(save(cpu_passes(), tmp_path)))
    assert figure is not None
    assert {line.get_label() for line in figure.axes[0].lines} == {"_glyph"}
    assert not any("first call" in text.get_text() for text in figure.texts)


SPOILED: list[dict[str, Any]] = [
    {"in_effect": False},
    {"in_effect": None},
    {"status": "wrong_result", "reason": "why"},
    {"budget": "smoke"},
    {"rounds": 5},
]


@pytest.mark.parametrize("draw", [waterfall, fusion, memory, overhead])
@pytest.mark.parametrize("spoiled", SPOILED, ids=str)
def test_what_does_not_count_is_not_charted(
    tmp_path: Path, draw: Draw, spoiled: dict[str, Any]
) -> None:
    passes = planted(1000, 300) | profiled(9, 2e-4) | cpu_clocks(3e-4, 1e-4)
    good = [record(mode, 3e-4, 1.0, **passes) for mode in ("eager", "inference_mode", "compile")]
    bad = record("no_grad", 3e-4, 1.0, **(passes | spoiled))
    figure = draw(derived(save([*good, bad], tmp_path / "some")))
    assert figure is not None
    names = [name.split()[0] for axes in figure.axes for name in _names(axes)]
    assert "compile" in names
    assert "no_grad" not in names
    alone = [record(mode, 3e-4, 1.0, **(passes | spoiled)) for mode in ("eager", "compile")]
    assert draw(derived(save(alone, tmp_path / "none"))) is None


@pytest.mark.parametrize("draw", [waterfall, fusion, memory, overhead])
@pytest.mark.parametrize("study", [cpu_passes, cuda_passes])
def test_equal_figures_have_equal_bytes_and_take_the_ink_of_a_page(
    tmp_path: Path, draw: Draw, study: Callable[[], list[Record]]
) -> None:
    rows = derived(save(study(), tmp_path))
    first, second = draw(rows), draw(rows)
    assert first is not None
    assert second is not None
    text = inline(svg(first, "one"))
    assert text == inline(svg(second, "one"))
    assert "currentColor" in text
    assert style.INK not in text


@pytest.mark.parametrize("draw", [fusion, memory, overhead, waterfall])
def test_modes_have_the_colour_of_their_family_and_parts_have_none(
    tmp_path: Path, draw: Draw
) -> None:
    figure = draw(derived(save(cuda_passes(), tmp_path)))
    assert figure is not None
    coloured = {family.colour for family in style.FAMILIES if family.colour in svg(figure, "one")}
    assert {style.COMPILE.colour, style.COMPILE_GRAPHS.colour} <= coloured
    (axes,) = figure.axes
    bars = {to_hex(bar.get_facecolor()) for bar in axes.patches if isinstance(bar, Rectangle)}
    if draw in (overhead, memory):  # parts of a call, not modes
        assert bars.isdisjoint(family.colour for family in style.FAMILIES)
