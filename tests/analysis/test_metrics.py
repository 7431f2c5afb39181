from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.load import load
from analysis.metrics import METRICS, Metric, derive, derived
from analysis.rows import latest
from bench.records import Record
from tests.analysis.studies import not_measured, record, save


def _row(tmp_path: Path, one: Record) -> dict[str, Any]:
    (row,) = derived(save([one], tmp_path)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_latency_and_its_order_statistic_interval(tmp_path: Path) -> None:
    # 12 rounds of 1 ... 12 ms: the median is 6.5 ms, the 95 % interval [x(3), x(10)]
    times = tuple(n * 1e-3 for n in (7, 1, 12, 3, 9, 5, 11, 2, 8, 4, 10, 6))
    row = _row(tmp_path, record(latency_rounds_s=times, baseline_latency_rounds_s=times))
    assert row["latency_s"] == pytest.approx(6.5e-3)
    assert row["latency_ci_low_s"] == pytest.approx(3e-3)
    assert row["latency_ci_high_s"] == pytest.approx(10e-3)
    assert row["rounds"] == 12


def test_speedup_is_paired_by_round(tmp_path: Path) -> None:
    # Every round ran at another speed; the case took half the baseline's time in each of them.
    case = tuple(n * 1e-3 for n in range(1, 13))
    baseline = tuple(2 * time for time in case)
    row = _row(tmp_path, record(latency_rounds_s=case, baseline_latency_rounds_s=baseline))
    assert row["speedup"] == pytest.approx(2)
    assert row["speedup_ci_low"] == pytest.approx(2)
    assert row["speedup_ci_high"] == pytest.approx(2)
    assert row["verdict"] == "faster"
    assert row["baseline_latency_s"] == pytest.approx(13e-3)
    assert row["mde"] == pytest.approx(0)


def test_p95_is_read_from_single_calls_and_needs_a_hundred(tmp_path: Path) -> None:
    calls = tuple(n * 1e-6 for n in range(1, 102))  # 1 ... 101 µs: 95 % lie at or below 96
    assert _row(tmp_path / "a", record(latency_calls_s=calls))["latency_p95_s"] == pytest.approx(
        96e-6
    )
    few = _row(tmp_path / "b", record(latency_calls_s=calls[:99]))
    assert math.isnan(few["latency_p95_s"])


@pytest.mark.parametrize(
    ("speedup", "spread", "first_call_s", "expected"),
    [
        (2.0, 0.002, 1.002, 1000.0),  # 1 s more at first, 1 ms gained per call
        (2.0, 0.002, 0.001, 0.0),  # first call cheaper than the baseline's 0.002 s
        (0.5, 0.002, 1.002, math.inf),
        (1.0, 0.002, 1.002, math.inf),  # equivalent, and 1 within the interval
        (1.02, 0.2, 1.002, None),  # inconclusive
        (2.0, 0.002, None, None),
    ],
)
def test_break_even(
    tmp_path: Path, speedup: float, spread: float, first_call_s: float | None, expected: float
) -> None:
    one = record(latency_s=1e-3, speedup=speedup, spread=spread, first_call_s=first_call_s)
    value = _row(tmp_path, one)["break_even_calls"]
    assert math.isnan(value) if expected is None else value == pytest.approx(expected)


@pytest.mark.parametrize("status", ["failed", "wrong_result", "oom", "timeout", "crashed"])
def test_only_ok_rows_get_figures(tmp_path: Path, status: str) -> None:
    row = _row(tmp_path, record(status=status, reason="it went wrong"))
    assert all(pd.isna(row[metric.name]) for metric in METRICS)


def test_smoke_rows_get_figures_but_no_verdict(tmp_path: Path) -> None:
    row = _row(tmp_path, record(budget="smoke"))
    assert row["speedup"] == pytest.approx(1.25)
    assert pd.isna(row["verdict"])
    assert pd.isna(row["break_even_calls"])


def test_too_few_rounds_have_no_interval_and_no_verdict(tmp_path: Path) -> None:
    row = _row(tmp_path, record(rounds=11))
    assert row["speedup"] == pytest.approx(1.25)
    unknown = ("speedup_ci_low", "latency_ci_high_s", "verdict", "mde")
    assert all(pd.isna(row[name]) for name in unknown)


def test_without_a_baseline_there_is_latency_and_no_speedup(tmp_path: Path) -> None:
    row = _row(
        tmp_path,
        record(baseline_mode=None, baseline_dtype=None, baseline_latency_rounds_s=None),
    )
    assert row["latency_s"] == pytest.approx(357e-6)
    assert pd.isna(row["speedup"])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_better_agrees_with_being_faster(tmp_path: Path, metric: Metric) -> None:
    # The same work at 1.2 and at 1.5 times the baseline's speed (the baseline takes 1.2 ms).
    slow = _row(tmp_path / "slow", record(latency_s=1e-3, speedup=1.2))
    fast = _row(tmp_path / "fast", record(latency_s=0.8e-3, speedup=1.5))
    if metric.better == "lower":
        assert fast[metric.name] < slow[metric.name]
    elif metric.better == "higher":
        assert fast[metric.name] > slow[metric.name]
    else:
        assert metric.name in ("baseline_latency_s", "verdict", "mde", "rounds")


def test_deriving_leaves_the_stored_columns_as_they_were(tmp_path: Path) -> None:
    runs = latest(load(save([record(), not_measured("amp", "skipped", "why")], tmp_path)))
    before = runs.copy(deep=True)
    rows = derive(runs)
    pd.testing.assert_frame_equal(rows[before.columns], before)
    assert set(rows.columns) - set(before.columns) == {metric.name for metric in METRICS}
