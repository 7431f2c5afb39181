"""The parts of a call: bars have the planted durations, and the caption decides on intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.figures import overhead
from tests.helpers.drawings import US, bars, cells, numbers, only_axes, opacity, rows_of
from tests.helpers.pass_columns import cuda_passes, profiled
from tests.helpers.studies import cpu_clocks, cpu_sweep, cuda_clocks, record


def test_a_bar_on_a_cpu_is_dispatch_then_work(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("eager", 300e-6, 1.0, **cpu_clocks(300e-6, 200e-6)),
        record("amp", 500e-6, 0.6, **cpu_clocks(500e-6, None)),
    )
    axes = only_axes(overhead.draw(rows))
    eager_dispatch, eager_work, amp = bars(axes, US)
    assert eager_dispatch == pytest.approx((0, 200))
    assert eager_work == pytest.approx((200, 100))
    assert amp == pytest.approx((0, 500), rel=1e-3)
    assert opacity(axes, 2) == 0  # an outline
    assert numbers(axes) == ["dispatch 200 µs, 67 %", "500 µs, split unknown"]


def test_on_cuda_host_and_device_have_a_bar_each(tmp_path: Path) -> None:
    rows = rows_of(
        tmp_path,
        record("eager", 132e-6, 1.0, **cuda_clocks(120e-6, 40e-6, 70e-6)),
        record("cuda-graph", 52.8e-6, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )
    assert np.round(bars(only_axes(overhead.draw(rows)), US), 1).tolist() == [
        [0, 70], [70, 50], [120, 12],  # eager: dispatch, launching, waiting
        [0, 40], [40, 92],  # the device: work, waiting
        [0, 8], [8, 44.8], [0, 41], [41, 11.8],  # the graph's host is not split
    ]  # fmt: skip


def test_without_any_split_there_is_no_figure(tmp_path: Path) -> None:
    assert overhead.draw(rows_of(tmp_path, *cpu_sweep())) is None


@pytest.mark.parametrize(
    ("dispatch_us", "kernels_us", "start", "expected"),
    [
        (100, 210, 90, "dispatch 100 µs, 33 %, not checked by profile"),
        (100, 400, 0, "dispatch 100 µs, 33 %, not checked by profile"),
        (30, 280, 20, "dispatch 30.0 µs, 10 %"),
    ],
)
def test_on_a_cpu_the_bar_of_kernels_ends_with_the_call(
    tmp_path: Path, dispatch_us: int, kernels_us: int, start: int, expected: str
) -> None:
    columns = cpu_clocks(300e-6, dispatch_us * 1e-6) | profiled(9, kernels_us * 1e-6)
    rows = rows_of(tmp_path, record("eager", 300e-6, 1.0, spread=0.002, **columns))
    axes = only_axes(overhead.draw(rows))
    split, profiled_us = [[0, dispatch_us], [dispatch_us, 300 - dispatch_us]], [start, kernels_us]
    assert np.round(bars(axes, US), 0).tolist() == [*split, profiled_us]
    assert numbers(axes) == [expected]


def test_launches_pauses_and_idle_time_are_shown_on_cuda(tmp_path: Path) -> None:
    clocks = cuda_clocks(120e-6, 40e-6, 70e-6)
    columns = profiled(42, 36e-6, launches=42, graph_launches=0)
    rows = rows_of(tmp_path, record("eager", 132e-6, 1.0, **clocks, **columns))
    axes = only_axes(overhead.draw(rows))
    assert np.round(bars(axes, US), 0).tolist() == [
        [0, 70], [70, 50], [120, 12], [0, 36], [36, 4], [40, 92],
    ]  # fmt: skip
    assert numbers(axes) == ["132 µs, host 91 %, device 30 %"]


def test_profiled_kernels_without_dispatch_make_no_figure(tmp_path: Path) -> None:
    unsplit = record("amp", **cpu_clocks(357e-6, None), **profiled(9, 300e-6))
    assert overhead.draw(rows_of(tmp_path, unsplit)) is None


def test_the_table_lists_the_parts_of_a_call_on_a_gpu(tmp_path: Path) -> None:
    eager = cells(overhead.table(rows_of(tmp_path, *cuda_passes())), "eager", "fp32")
    assert eager["host"] == "120 µs"
    assert eager["dispatch"] == "70.0 µs"
    assert eager["device share"] == "30.3 % [30.1, 30.5]"  # 40 of 132 µs
    assert eager["launching"] == "50.0 µs"
    assert eager["launches"] == "42 launches"
    assert eager["device idle"] == "71 %"
