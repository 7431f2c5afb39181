"""The table of metrics: which rows have values, their directions, and what is left as stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from modescope.analysis.derive.registry import METRICS, Metric, derive, derived
from modescope.analysis.derive.select import latest
from modescope.analysis.load import read
from modescope.bench.records.results import Record
from tests.helpers.derivations import rows_of_each
from tests.helpers.pass_columns import BOUNDS, GENERATED, memory, pool, profiled
from tests.helpers.studies import blocks, cpu_clocks, cuda_clocks, not_measured, record, save

LISTS = ("flags", "flags_touch")


def test_only_ok_rows_have_derived_values(tmp_path: Path) -> None:
    passes = profiled(9, 1e-4) | memory(1000, 10) | BOUNDS | GENERATED | cpu_clocks(357e-6, 50e-6)
    statuses = ("failed", "wrong_result", "oom", "timeout", "crashed")
    lost = (record(status=status, reason="it went wrong", **passes) for status in statuses)
    for row in rows_of_each(tmp_path, lost):
        assert {m.name for m in METRICS if row[m.name] is not None} == {*LISTS}, row["status"]


def _scaled(factor: float, speedup: float, spread: float) -> list[Record]:
    """Two processes of a compiled mode on a GPU at different speeds, and the reference row."""
    device_s = 0.9e-3 * factor**0.5  # so that part of the gain comes from the host
    clocks = cuda_clocks(0.4e-3 * factor, device_s, 0.1e-3 * factor)
    passes = memory(round(1e6 * factor), 1000) | profiled(9, device_s * 0.9) | BOUNDS | pool(0, 0)
    moved = {"bytes_accessed": round(1e6 * factor), "eager_bytes": 2_000_000}
    names = ("forward_rounds_s", "backward_rounds_s", "optimizer_rounds_s", "scaler_rounds_s")
    parts: dict[str, Any] = dict.fromkeys(names, blocks(0.25e-3 * factor)) | {
        "parts_latency_rounds_s": blocks(1e-3 * factor), "loss_scale": 1024.0,
    }  # fmt: skip
    planted: dict[str, Any] = clocks | passes | moved | parts
    return [
        record("compile", 1e-3 * factor, speedup * off, replicate=number, **planted)
        for number, off in enumerate((1 - spread, 1 + spread))
    ] + [record("inference_mode", 1.2e-3, 1.0, **cuda_clocks(0.5e-3, 1e-3, 0.2e-3))]


_NO_WAY_IS_BETTER = {
    "baseline_latency_s", "verdict", "mde", "rounds", "host_wait_s", "device_idle_s", "bound_by",
    "device_idle_fraction", "residual_s", "floor_s", "floor_bound", "flags", "flags_touch", "cause",
    "cause_text",
    "parts_ratio",
    "parts_ratio_ci_low", "parts_ratio_ci_high", "pace",
    "pace_slowest",
    *(f"{name}{end}" for end in ("", "_ci_low", "_ci_high") for name in (
        "host_share", "device_share", "pipelined_share", "dispatch_share", "host_per_device",
        "forward_share", "backward_share", "optimizer_share", "scaler_share")),
}  # fmt: skip


@pytest.fixture(scope="module")
def slow_and_fast(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The same work at 1.2 and at 1.5 times the baseline's speed (the baseline takes 1.2 ms)."""
    folder = tmp_path_factory.mktemp("studies")
    planted = {"slow": (1.0, 1.2, 0.02), "fast": (0.8, 1.5, 0.01)}
    return [
        derived(save(_scaled(*how), folder / name)).set_index("mode").loc["compile"]
        for name, how in planted.items()
    ]


_AT_FULL_PACE = ("latency_at_full_pace_s", "latency_at_full_pace_ci_low_s",
                 "latency_at_full_pace_ci_high_s")  # fmt: skip
_THREADS_GAIN = ("threads_gain", "threads_gain_ci_low", "threads_gain_ci_high")
_CONFIRMING = tuple(f"confirming_speedup{end}" for end in ("", "_ci_low", "_ci_high"))
# of the same latency in both studies; null on a GPU, with one number of threads, or unconfirmed
_THE_SAME = {
    **dict.fromkeys(("latency_process_spread", *_AT_FULL_PACE), "lower"),
    **dict.fromkeys((*_THREADS_GAIN, *_CONFIRMING), "higher"),
}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_the_direction_of_each_metric_matches_slow_and_fast_rows(
    slow_and_fast: list[Any], metric: Metric
) -> None:
    slow, fast = slow_and_fast
    if metric.name in _THE_SAME:
        assert metric.better == _THE_SAME[metric.name]
    elif metric.better == "lower":
        assert fast[metric.name] < slow[metric.name]
    elif metric.better == "higher":
        assert fast[metric.name] > slow[metric.name]
    else:
        assert metric.name in _NO_WAY_IS_BETTER


def test_deriving_leaves_stored_columns_unchanged(tmp_path: Path) -> None:
    study = save([record(), not_measured("amp", "skipped", "why")], tmp_path)
    runs = latest(read(study).table)
    stored = [name for name in runs if name != "flags" and not str(name).startswith("_")]
    before = runs[stored].copy(deep=True)
    rows = derive(runs)
    pd.testing.assert_frame_equal(rows[before.columns], before)
    added = set(rows.columns) - set(before.columns)
    counted = {
        "replicates", "speedup_processes", "replicates_not_ok", "process_run_ids", "process_nodes",
            "apart",
    }  # fmt: skip
    assert added == counted | {metric.name for metric in METRICS} - {*_CONFIRMING}
    assert [list(values) for name in LISTS for values in rows[name]] == [[]] * 4
