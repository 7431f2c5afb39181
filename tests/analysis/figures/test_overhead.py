"""The parts of a call: bars have the planted durations, and the caption decides on intervals."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from modescope.analysis.figures import overhead
from tests.helpers.drawings import US, bars, caption_of, cells, numbers, only_axes, opacity, rows_of
from tests.helpers.pass_columns import cuda_passes, profiled
from tests.helpers.studies import cpu_clocks, cpu_sweep, cuda_clocks, cuda_sweep, record


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
        record("cuda-graph", 52e-6, 2.5, **cuda_clocks(8e-6, 41e-6)),
    )
    assert np.round(bars(only_axes(overhead.draw(rows)), US), 1).tolist() == [
        [0, 70], [70, 50], [120, 12],  # eager: dispatch, launching, waiting
        [0, 40], [40, 92],  # the device: work, waiting
        [0, 8], [8, 44], [0, 41], [41, 11],  # the graph's host is not split
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


_caption = partial(caption_of, overhead.caption)


def test_the_caption_groups_modes_by_the_larger_part(tmp_path: Path) -> None:
    caption = _caption(
        tmp_path,
        record("eager", 100e-6, 1.0, **cpu_clocks(100e-6, 81e-6)),
        record("compile", 60e-6, 1.6, **cpu_clocks(60e-6, 12e-6)),
        record("no_grad", 100e-6, 1.0, **cpu_clocks(100e-6, 50.1e-6)),
        record("amp", 200e-6, 0.5, **cpu_clocks(200e-6, None)),
    )
    assert caption == (
        "Dispatch is more than half of the call, so fewer operators help: eager fp32 (81 %). "
        "Dispatch is less than half of the call, so faster kernels help more: compile fp32 "
        "(20 %). The intervals do not decide whether dispatch is more than half of the call: "
        "no_grad fp32 (50 %). Unknown: amp bf16 (autocast casts every weight on an empty batch "
        "too). Not checked against a profile: no reliable profile."
    )


def test_the_caption_divides_calls_of_compiled_code(tmp_path: Path) -> None:
    """Also where the batch cannot be empty, so that dispatch is unknown."""
    split = profiled(9, 100e-6, guards_s=30e-6, compiled_wrapper_s=20e-6)
    records = [
        record("eager", 100e-6, 1.0, **cpu_clocks(100e-6, None)),
        record("compile", 60e-6, 1.6, **cpu_clocks(60e-6, None), **split),
    ]
    expected = (
        "Cache lookup (guards) and the Python around compiled code take, of the profiled call: "
        "compile fp32 15 % and 10 %."
    )
    assert _caption(tmp_path / "unknown", *records).endswith(f"). {expected}")
    records[0] = record("eager", 100e-6, 1.0, **cpu_clocks(100e-6, 81e-6))
    assert _caption(tmp_path / "known", *records).endswith(f". {expected}")
    assert "Cache lookup" not in _caption(tmp_path / "eager", records[0])


def test_dispatch_that_exceeds_the_call_is_no_split(tmp_path: Path) -> None:
    records = [
        record("eager", 100e-6, 1.0, **cpu_clocks(100e-6, 130e-6)),
        record("no_grad", 100e-6, 1.0, **cpu_clocks(100e-6, 102e-6)),
        record("compile", 60e-6, 1.6, **cpu_clocks(60e-6, 12e-6)),
    ]
    caption = _caption(tmp_path, *records)
    assert "so fewer operators help: no_grad fp32 (102 %). " in caption
    why = "dispatch was measured at 130 % of the call, so the clocks contradict each other"
    assert f"Unknown: eager fp32 ({why})." in caption
    axes = only_axes(overhead.draw(rows_of(tmp_path / "drawn", *records)))
    assert numbers(axes)[0] == "100 µs, dispatch contradicts it"
    assert bars(axes, US)[0] == pytest.approx((0, 100), rel=1e-3)
    assert opacity(axes, 0) == 0


def test_on_cuda_host_and_device_are_compared(tmp_path: Path) -> None:
    caption = _caption(tmp_path, *cuda_sweep())
    host, device = caption.index("The host is busy"), caption.index("The device is busy")
    assert host < caption.index("eager fp32 (host 91 %, device 30 %)") < device
    assert device < caption.index("cuda-graph fp32 (host 15 %, device 79 %)")
    assert "Unknown: max-autotune fp32 (the queue ran empty)." in caption


def test_the_caption_compares_profiler_and_clocks(tmp_path: Path) -> None:
    work = [
        record("eager", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6), **profiled(9, 93e-6)),
        record("compile", 6e-5, 1.6, **cpu_clocks(6e-5, 6e-6), **profiled(2, 5e-5)),
        record("no_grad", 1e-4, 1.0, **cpu_clocks(1e-4, 6e-5), **profiled(9, 93e-6)),
    ]
    why = "dispatch is more than 17 % of the call, and profiled kernels include part of it"
    caption = _caption(tmp_path / "work", *work)
    assert caption.endswith(
        "The profile has at most 7 % less work than the clocks (compile fp32). Not checked "
        f"against a profile: no_grad fp32 ({why})."
    )
    bound_by_overhead = _caption(tmp_path / "overhead", *work[2:])
    assert bound_by_overhead.endswith(f"Not checked against a profile: {why}.")
    on_cuda = _caption(tmp_path / "cuda", *cuda_passes())
    assert "eager fp32 (host 91 %, device 30 %, idle 71 %)" in on_cuda
    assert "at most 5 % less work than the clocks" in on_cuda
    assert "Not checked" not in on_cuda


def test_an_unchecked_split_is_stated(tmp_path: Path) -> None:
    """Work is the larger part up to a share of dispatch of 1/2; it is checked up to 1/6."""
    records = [
        record("eager", 1e-4, 1.0, **cpu_clocks(1e-4, 30e-6), **profiled(9, 90e-6)),
        record("compile", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6), **profiled(2, 88e-6)),
        record("no_grad", 1e-4, 1.0, **cpu_clocks(1e-4, 10e-6)),
        record("inference_mode", 1e-4, 1.0, flags=("profile_lost_events",),
               **cpu_clocks(1e-4, 10e-6), **profiled(2, 88e-6)),
    ]  # fmt: skip
    caption = _caption(tmp_path, *records)
    assert caption.endswith(
        "(compile fp32). Not checked against a profile: eager fp32 (dispatch is more than 17 % of "
        "the call, and profiled kernels include part of it); no_grad fp32, inference_mode fp32 (no "
        "reliable profile)."
    )


def test_a_note_on_known_dispatch_is_not_shown_as_a_reason(tmp_path: Path) -> None:
    """Three blocks are too few for an interval."""
    three = {"dispatch_rounds_s": (30e-6, 31e-6, 32e-6), "dispatch_note": "guards and wrapper"}
    caption = _caption(tmp_path, record(**(cpu_clocks(1e-4, 30e-6) | three)))
    assert "guards and wrapper" not in caption
    assert "compile fp32 (no interval of the dispatch time)" in caption


def test_without_dispatch_times_the_caption_does_not_mention_them(tmp_path: Path) -> None:
    caption = _caption(tmp_path, record())
    assert caption == "Where the time goes is unknown: compile fp32 (not measured)."
    spoiled = rows_of(tmp_path / "spoiled", record(in_effect=False))
    assert overhead.caption(spoiled) is None


def test_the_table_lists_the_parts_of_a_call_on_a_gpu(tmp_path: Path) -> None:
    eager = cells(overhead.table(rows_of(tmp_path, *cuda_passes())), "eager", "fp32")
    assert eager["host"] == "120 µs"
    assert eager["dispatch"] == "70.0 µs"
    assert eager["device share"] == "30.3 % [30.1, 30.5]"  # 40 of 132 µs
    assert eager["launching"] == "50.0 µs"
    assert eager["launches"] == "42 launches"
    assert eager["device idle"] == "71 %"
