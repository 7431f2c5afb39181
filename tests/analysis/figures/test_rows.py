"""Figures with a row per mode: what they draw as data, and the numbers in their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import MEMORY, OVERHEAD, STEP_PARTS
from modescope.analysis.figures.cold import COLD
from modescope.analysis.figures.own_kernels import OWN_KERNELS
from modescope.analysis.figures.points import FUSION, SPEEDUP
from modescope.analysis.figures.registry import OF_SECTION
from modescope.analysis.figures.sizes import FIRST_PASS
from modescope.analysis.figures.starts import STARTS
from modescope.analysis.figures.steps import STEPS
from modescope.analysis.figures.theme import FigureKind
from tests.helpers import pass_columns
from tests.helpers.cause_worlds.compiler import VARIED
from tests.helpers.drawings import US, bars, names, numbers, only_axes, panels, rows_of
from tests.helpers.pass_columns import pool, profiled, trained
from tests.helpers.studies import cpu_clocks, cuda_clocks, not_measured, record, training

KIB = 2**10


def _points(axes: Axes) -> list[tuple[float, float, Any]]:
    """Place, value and face of each marker."""
    return [
        (place, value, line.get_markerfacecolor())
        for line in axes.lines if line.get_marker() not in ("", "None", None)
        for place, value in zip(np.ravel(line.get_ydata()), np.ravel(line.get_xdata()), strict=True)
        if np.isfinite(value)
    ]  # fmt: skip


def test_speedup_draws_values_and_intervals_and_fills_what_is_decided(tmp_path: Path) -> None:
    kinds = [record("eager", speedup=1.0), record("compile", speedup=2.0), record("amp")]
    rows = rows_of(tmp_path, *kinds, record("no_grad", in_effect=False))
    axes, bf16 = panels(SPEEDUP.draw(rows)).values()
    assert (names(axes), names(bf16)) == (["eager", "compile"], ["amp"])
    eager, compiled = _points(axes)
    assert (*eager[:2], *compiled[:2]) == pytest.approx((0, 1.0, 1, 2.0))
    assert (eager[2], compiled[2] == "none") == ("none", False)
    row = rows.set_index("mode").loc["compile"]
    lines = [np.ravel(line.get_xdata()) for line in axes.lines if np.size(line.get_xdata()) == 2]
    ends = pytest.approx((row["speedup"].low, row["speedup"].high))
    assert any(tuple(line) == ends for line in lines)
    assert [text.split()[-1] for text in numbers(axes)] == ["equivalent", "faster"]


def test_the_recommended_mode_is_bold_on_a_band_and_narrow_numbers_stand_below_names(
    tmp_path: Path,
) -> None:
    rows = rows_of(tmp_path, record("eager", speedup=1.0), record("compile", speedup=2.0))
    marked = rows.assign(is_recommended=rows["mode"] == "compile")
    axes = only_axes(SPEEDUP.draw(marked))
    weights = [label.get_fontweight() for label in axes.get_yticklabels()]
    assert weights == ["normal", "bold"]
    of_margin = {"y": 0, "height": 1}  # in parts of the axes
    places = [
        (patch.get_y(), patch.get_height())
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    ]
    assert sorted(places) == [tuple(of_margin.values()), (0.5, 1)]
    with theme.look(theme.NARROW):
        figure = SPEEDUP.draw(marked)
    assert figure is not None
    assert figure.get_figwidth() == theme.NARROW
    narrow = only_axes(figure)
    assert names(narrow) == [
        f"{name}\n{told}" for name, told in zip(names(axes), numbers(axes), strict=True)
    ]
    assert set(numbers(narrow)) == {""}


def test_warm_and_cold_data_are_two_marks_of_a_mode(tmp_path: Path) -> None:
    cold: dict[str, Any] = {"data": "cold_weights", "evicted_bytes": 4 * 2**20}
    rows = rows_of(
        tmp_path,
        record("compile", 100e-6, 2.0), record("compile", 300e-6, 1.5, **cold),
        record("no_grad", 200e-6, 1.0), record("amp", 450e-6, 1.0, dtype="fp32", **cold),
    )  # fmt: skip
    left, right = COLD.draw(rows).axes[:2]
    assert names(left) == ["compile"]
    assert [value for _, value, _ in _points(left)] == pytest.approx([100, 300])
    assert [value for _, value, _ in _points(right)] == pytest.approx([2.0, 1.5])
    (line,) = COLD.table(rows).rows
    assert [cell.split()[0] for cell in line[-6:]] == [
        "100.0", "300", "2.00×", "1.500×", "4.00", "–"
    ]  # fmt: skip
    assert COLD.draw(rows[rows["data"].isna()]) is None


def test_each_precision_is_cold_beside_its_own_warm_row(tmp_path: Path) -> None:
    cold: dict[str, Any] = {"data": "cold"}
    halves = [
        record("no_grad", 100e-6, ratio, dtype=dtype, baseline_dtype="fp32", **data)
        for dtype, data, ratio in (
            ("fp32", {}, 1.0), ("bf16", {}, 2.0), ("fp32", cold, 1.25), ("bf16", cold, 4.0)
        )
    ]  # fmt: skip
    figure = COLD.draw(rows_of(tmp_path, *halves))
    speedups = [[value for _, value, _ in _points(axes)] for axes in figure.axes[1::2]]
    assert speedups == [pytest.approx([1.0, 1.25]), pytest.approx([2.0, 4.0])]


def test_overhead_on_a_cpu_is_dispatch_then_work(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("eager", 300e-6, 1.0, **cpu_clocks(300e-6, 200e-6)),
        record("amp", 500e-6, 0.6, dtype="fp32", **cpu_clocks(500e-6, None)),
    )
    axes = only_axes(OVERHEAD.draw(rows))
    assert bars(axes) == {
        "eager": [(0, pytest.approx(200)), (pytest.approx(200), pytest.approx(100))],
        "amp": [(0, pytest.approx(500, rel=1e-3))],
    }
    assert axes.get_xlabel() == "µs"
    assert numbers(axes) == ["300 µs, dispatch 67 %", "500 µs, not split"]


def test_overhead_on_cuda_is_the_hosts_call_with_the_busy_device_marked(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("eager", 132e-6, 1.0, **cuda_clocks(120e-6, 40e-6, 70e-6)),
        record("cuda-graph", 52.8e-6, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )
    axes = only_axes(OVERHEAD.draw(rows))
    assert {name: np.round(parts, 1).tolist() for name, parts in bars(axes).items()} == {
        "eager": [[0, 70], [70, 50], [120, 12]],  # dispatch, launching, waiting
        "cuda-graph": [[0, 8], [8, 44.8]],  # its host is not split
    }
    (busy,) = axes.lines
    assert np.ravel(busy.get_xdata()) == pytest.approx([40, 41], rel=1e-3)


def test_fusion_spans_the_work_and_the_kernels_of_eager_and_of_the_mode(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("inference_mode", 112e-6, 1.2, **cuda_clocks(1e-4, 40e-6), **profiled(42, 38e-6)),
        record("compile", 134.4e-6 / 1.8, 1.8, **cuda_clocks(6e-5, 25e-6), **profiled(9, 24e-6)),
        record("cuda-graph", 134.4e-6 / 2.5, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )
    work, kernels = panels(FUSION.draw(rows)).values()
    assert names(work) == ["compile"]  # a graph of eager's kernels fuses nothing
    assert [np.ravel(line.get_xdata()).tolist() for line in work.lines] == [pytest.approx([25, 40])]
    assert [np.ravel(line.get_xdata()).tolist() for line in kernels.lines] == [[9, 42]]
    assert numbers(kernels)[0].startswith("1.60× [")


def test_memory_adds_up_to_the_peak_on_one_scale(tmp_path: Path) -> None:
    eager = pass_columns.memory(1000 * KIB, 300 * KIB, 200 * KIB) | pool(0, 0)
    replayed = pass_columns.memory(1000 * KIB, 0) | pool(400 * KIB, 100 * KIB)
    rows = rows_of(
        tmp_path,
        record("eager", device="cuda", **eager),
        record("cuda-graph", device="cuda", dtype="bf16", **replayed),
    )
    fp32, bf16 = panels(MEMORY.draw(rows)).values()
    assert fp32.get_xlim() == bf16.get_xlim()
    for axes, name in ((fp32, "eager"), (bf16, "cuda-graph")):
        row = rows.set_index("mode").loc[name]
        start, length = bars(axes)[name][-1]
        assert start + length == pytest.approx(row["peak_bytes"] / 2**20, abs=0.02)
    assert bf16.patches[-1].get_hatch() == "xxxx"


def test_steps_are_stacked_by_their_parts(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        training("eager", 1000 * US, 1.0, (400 * US, 600 * US, 200 * US)),
        training("amp", 1000 * US, 1.0, (300 * US, 400 * US, 200 * US, 50 * US), dtype="fp32"),
        training("cuda-graph", 500 * US, 2.0, parts_s=None),
    )
    axes = only_axes(STEP_PARTS.draw(rows))
    assert bars(axes, 1000) == {
        "eager": [(0, 400), (400, 600), (1000, 200)],
        "amp": [(0, 300), (300, 400), (700, 200), (900, 50)],
        "cuda-graph": [(0, 500)],
    }


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("overhead", cpu_clocks(357e-6, None) | profiled(9, 300e-6)),
        ("memory", pass_columns.memory(1000, 300) | {"resident_bytes": None}),
        ("memory", pass_columns.memory(1000, 0) | {"device": "cuda", "graph_pool_bytes": 400}),
        ("fusion", {}),
        ("parts", {}),
    ],
)
def test_nothing_is_drawn_of_what_was_not_measured(
    tmp_path: Path, kind: str, columns: dict[str, Any]
) -> None:
    (found,) = (one for one in OF_SECTION if one.name == kind)
    assert found.draw(rows_of(tmp_path, record("compile", **columns))) is None


STARTED = {
    "starts_s": (2.0,) * 3,
    "baseline_starts_s": (1.0,) * 3,
    "start_phases_s": '[{"import": 1.0}]',
}


@pytest.mark.parametrize(
    "kind",
    [kind for kind in OF_SECTION if kind not in (FIRST_PASS, STEPS)],
    ids=lambda kind: kind.name,
)
def test_untrusted_rows_are_not_drawn(tmp_path: Path, kind: FigureKind) -> None:
    is_step = kind is STEP_PARTS
    passes = pass_columns.memory(1000, 300) | profiled(9, 2e-4) | cpu_clocks(3e-4, 1e-4)
    planted = trained(1000, 300, 1100) if is_step else passes
    planted |= {"axes": '{"kernels":"mine"}'} if kind is OWN_KERNELS else {}
    planted |= STARTED if kind is STARTS else {}
    make = training if is_step else record
    good = [make(mode, 3e-4, 1.0, **planted) for mode in ("eager", "inference_mode", "compile")]
    failed = not_measured("amp", "failed", "why", dtype="fp32")
    bad = make("no_grad", 3e-4, 1.0, **(planted | {"in_effect": None}))
    found = panels(kind.draw(rows_of(tmp_path / "some", *good, failed, bad)))
    drawn = {name for axes in found.values() for name in names(axes) if name}
    assert {"compile"} <= {name.partition(",")[0] for name in drawn}
    assert drawn <= {"eager", "inference_mode", "compile", "compile, cold cache"}
    assert kind.draw(rows_of(tmp_path / "none", failed, bad)) is None


def test_calls_that_compile_are_marked_in_the_first_pass(tmp_path: Path) -> None:
    made = [record("eager", speedup=1.0), record("compile", speedup=1.2, **VARIED)]
    drawn = FIRST_PASS.draw(rows_of(tmp_path, *made))
    assert drawn is not None
    (panel,) = drawn.axes
    calls, compiling = (np.asarray(one.get_offsets()).tolist() for one in panel.collections)
    assert panel.get_title(loc="left") == "compile"
    assert [number for number, _ in compiling] == [1, 2]
    np.testing.assert_allclose(calls, [[3, 0.001], [4, 0.004], [5, 0.002], [6, 0.008]])
    (baseline,) = panel.lines
    usual = [2e-3, 3e-3, 2e-3, 4e-3, 3e-3, 8e-3]
    np.testing.assert_allclose(np.asarray(baseline.get_ydata()), usual)
