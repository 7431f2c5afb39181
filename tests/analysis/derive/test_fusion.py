"""Gains of fusion and of launches, worked out by hand from planted clocks and speedups."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.derive.select import values_of
from modescope.analysis.rows.type import Row
from modescope.bench.records.results import Record
from tests.helpers.derivations import studies_of
from tests.helpers.studies import cpu_clocks, cuda_clocks, record

EAGER = 100e-6  # the baseline's latency


def _cpu(mode: str, latency_s: float, dispatch_s: float | None, **columns: Any) -> Record:
    clocks = cpu_clocks(latency_s, dispatch_s) | columns
    return record(mode, latency_s, EAGER / latency_s, **clocks)


GAINS = ("fusion_gain", "fusion_speedup", "launch_gain")
REFERENCE = _cpu("inference_mode", 90e-6, 30e-6)  # 60 us of work


def _compiled_of(folder: Path, pairs: Iterable[Iterable[Record]]) -> list[Row]:
    """The compiled row of each study."""
    rows = (row for study in studies_of(folder, pairs) for row in study)
    return [row for row in rows if row["mode"] == "compile"]


def test_on_cuda_the_gains_are_null_without_a_baselines_device_time(tmp_path: Path) -> None:
    planted = {"inference_mode": (100e-6, 40e-6), "compile": (60e-6, 25e-6)}
    pairs = (
        [
            record(mode, 112e-6, 1.2, **cuda_clocks(*times)
                   | ({"baseline_device_rounds_s": None} if mode == spoiled else {}))
            for mode, times in planted.items()
        ]
        for spoiled in planted
    )  # fmt: skip
    for row in _compiled_of(tmp_path, pairs):
        assert values_of(row, GAINS) == (None,) * 3


def test_expected_latency_includes_the_cost_of_a_synchronise(tmp_path: Path) -> None:
    planted = [
        (0.0, 112 / 100),
        (None, 112 / 100),
        (4e-6, 112 / 104),
        (14e-6, 1.0),  # no longer than the call that was measured
    ]
    fused = record("compile", 72e-6, 1.8, **cuda_clocks(60e-6, 25e-6))
    eager = (cuda_clocks(100e-6, 60e-6) | {"synchronize_s": wait_s} for wait_s, _ in planted)
    pairs = ([record("inference_mode", 112e-6, 1.2, **clocks), fused] for clocks in eager)
    found = [row["fusion_speedup"] for row in _compiled_of(tmp_path, pairs)]
    assert found == pytest.approx([expected for _, expected in planted], rel=1e-3)


def test_added_device_work_counts_where_it_exceeds_host_time(tmp_path: Path) -> None:
    planted = [
        (100e-6, 112e-6, 1.0),  # 80 us of device work fit within 100 us of the host
        (70e-6, 82e-6, 82 / 92),  # 10 us exceed the host time
        (20e-6, 44e-6, 44 / 84),  # 40 us more, where the device was the bottleneck already
    ]
    slower = record("compile", 90e-6, 1.0, **cuda_clocks(60e-6, 80e-6))
    pairs = (
        [record("inference_mode", latency_s, 1.2, **cuda_clocks(host_s, 40e-6)), slower]
        for host_s, latency_s, _ in planted
    )
    rows = _compiled_of(tmp_path, pairs)
    assert [row["fusion_gain"].value for row in rows] == pytest.approx([0.5] * 3)
    expected = [speedup for *_, speedup in planted]
    assert [row["fusion_speedup"] for row in rows] == pytest.approx(expected, rel=1e-3)


def test_the_gains_are_null_without_a_trusted_reference_and_both_clocks(tmp_path: Path) -> None:
    """What differs does so in either of the two rows; a row of another kind is no reference."""
    differing: list[dict[str, Any]] = [
        {"grad": "no_grad"}, {"dtype": "bf16"}, {"shape": '{"batch":5}'}, {"device": "cuda"},
        {"baseline_mode": "no_grad"}, {"in_effect": False}, {"rounds": 5},
        {"dispatch_rounds_s": None},
    ]  # fmt: skip
    compiled = _cpu("compile", 50e-6, 10e-6)
    pairs = [
        pair
        for differs in differing
        for pair in (
            [_cpu("inference_mode", 90e-6, 30e-6, **differs), compiled],
            [REFERENCE, _cpu("compile", 50e-6, 10e-6, **differs)],
        )
    ]
    work_reaches_zero = [
        [_cpu("inference_mode", 90e-6, 90.2e-6), compiled],
        [REFERENCE, _cpu("compile", 50e-6, 50.2e-6)],
    ]
    rows = _compiled_of(tmp_path, [*pairs, *work_reaches_zero])
    assert len(rows) == 18
    assert {value for row in rows for value in values_of(row, GAINS)} == {None}


def test_launch_gain_is_null_at_another_dtype_than_the_baseline(tmp_path: Path) -> None:
    autocast = record("amp-compile", 60e-6, 2.2, **cuda_clocks(50e-6, 20e-6))
    same = record("inference_mode", 100e-6, 1.2, dtype="bf16", **cuda_clocks(90e-6, 30e-6))
    in_fp32 = record("inference_mode", 110e-6, 1.1, **cuda_clocks(100e-6, 60e-6))
    ((row, *_),) = studies_of(tmp_path, [[autocast, same, in_fp32]])
    assert row["speedup_same_grad"].value == pytest.approx(2.0)
    assert row["fusion_gain"].value == pytest.approx(1.5)
    assert row["launch_gain"] is None


def test_eager_in_a_graph_fuses_nothing_and_gains_by_launching(tmp_path: Path) -> None:
    eager = record("inference_mode", 100e-6, 1.2, **cuda_clocks(90e-6, 30e-6))
    graph = record("cuda-graph", 50e-6, 2.4, **cuda_clocks(8e-6, 28e-6))
    ((_, row),) = studies_of(tmp_path, [[eager, graph]])
    assert (row["fusion_gain"], row["fusion_speedup"]) == (None, None)
    assert row["launch_gain"] == pytest.approx(row["speedup_same_grad"].value)
