"""Latencies and clocks that are shown beside each other come from the pairs of each process."""

from __future__ import annotations

from pathlib import Path

import pytest

from modescope.analysis.derive.registry import derived
from modescope.analysis.figures import latency
from modescope.analysis.format.phrases import Row
from tests.helpers.causes import rows_of
from tests.helpers.studies import cpu_clocks, record, save

EAGER_S, DISPATCH_S = 200e-6, 100e-6
PROCESSES = {  # mode: its speedup, its dispatch ÷ eager's, the pace of its process
    "eager": (1.0, 1.0, 1.0),
    "no_grad": (1.1, 0.9, 1.6),
    "inference_mode": (1.2, 0.8, 1.3),
}


def _records() -> list[object]:
    return [
        record(
            mode, pace * EAGER_S / speedup, speedup,
            **cpu_clocks(pace * EAGER_S / speedup, pace * DISPATCH_S * dispatch),
        )
        for mode, (speedup, dispatch, pace) in PROCESSES.items()
    ]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Each process ran at another pace: what its clocks read contradicts the pairs."""
    found = rows_of(_records(), tmp_path)
    for clock in ("latency_s", "dispatch_s"):
        eager, *others = (row[clock] for row in found)
        assert eager < min(others)
    return found


@pytest.mark.parametrize("clock", ["latency", "dispatch"])
def test_clocks_are_in_the_order_of_the_pairs(rows: list[Row], clock: str) -> None:
    eager, no_grad, inference_mode = (row[f"{clock}_paired_s"] for row in rows)
    assert eager > no_grad > inference_mode


def test_a_latency_is_the_median_baseline_of_the_group_over_the_speedup(rows: list[Row]) -> None:
    for row, (speedup, dispatch, _) in zip(rows, PROCESSES.values(), strict=True):
        paired_s = 1.3 * EAGER_S / speedup  # 1.3: the median of the paces
        assert row["latency_paired_s"] == pytest.approx(paired_s, rel=0.01)
        assert row["latency_paired_ci_low_s"] < row["latency_paired_s"]
        assert row["latency_paired_ci_high_s"] > row["latency_paired_s"]
        expected_s = 1.3 * DISPATCH_S * dispatch
        assert row["dispatch_paired_s"] == pytest.approx(expected_s, rel=0.01)


def test_other_work_has_a_baseline_of_its_own(tmp_path: Path) -> None:
    other = record("compile", 1e-3, 2.0, model="mlp")
    *_, found = rows_of([*_records(), other], tmp_path)
    assert found["latency_paired_s"] == pytest.approx(1e-3, rel=0.01)


def test_without_a_baseline_the_latency_is_what_the_clock_read(tmp_path: Path) -> None:
    none = {"baseline_mode": None, "baseline_dtype": None, "baseline_latency_rounds_s": None}
    alone = record("compile", 300e-6, **none)
    (row,) = rows_of([alone], tmp_path)
    assert row["latency_paired_s"] == row["latency_s"]
    assert row["latency_paired_ci_low_s"] == row["latency_ci_low_s"]


def test_the_figure_names_the_fastest_by_its_speedup(tmp_path: Path) -> None:
    text = latency.caption(derived(save(_records(), tmp_path)))
    assert text.startswith("Shortest: inference_mode fp32, ")
