"""Times that are shown, and what they are made of, against the rounds of the kept rows."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from modescope.analysis.causes.savings import savings
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.results import StoredRow
from tests.helpers.commands import rows_in
from tests.helpers.derivations import table_of
from tests.helpers.paths import REFERENCE

ON_GPU = ("nvidia-h100", "nvidia-h100/bf16", "nvidia-h100/training")
ON_CPU = ("intel-xeon-2-cores", "amd-epyc-2-cores")


@cache
def _kept(study: str) -> list[tuple[Row, StoredRow]]:
    """Each derived row of one process, and the stored row with its samples."""
    stored = {row["run_id"]: row for file in (REFERENCE / study / "rows").iterdir()
              for row in rows_in(file)}  # fmt: skip
    rows = as_rows(table_of(str(REFERENCE / study)))
    return [(row, stored[row["run_id"]]) for row in rows
            if row["replicates"] == 1 and row["status"] == "ok"]  # fmt: skip


def _on_gpu() -> list[tuple[Row, StoredRow]]:
    pairs = [pair for study in ON_GPU for pair in _kept(study)]
    assert len(pairs) == 45
    return pairs


def _of_baseline(row: StoredRow) -> float:
    """Device time of the row ÷ of its baseline, of the same rounds."""
    pairs = zip(row["device_rounds_s"], row["baseline_device_rounds_s"], strict=True)
    return float(statistics.median(mine / theirs for mine, theirs in pairs))


def test_on_a_gpu_no_time_is_below_what_was_measured() -> None:
    for row, stored in _on_gpu():
        assert row["latency_paired_s"] == row["latency_s"]
        assert row["latency_paired_s"].value >= min(stored["latency_rounds_s"])
        assert row["device_paired_s"] == row["device_s"].value == row["work_s"]
        assert row["device_paired_s"] >= 0.97 * row["device_busy_s"]


def test_on_a_gpu_work_is_told_by_the_device_times_of_the_same_rounds() -> None:
    gains = 0
    for row, stored in _on_gpu():
        ratio = _of_baseline(stored)
        assert row["device_gain"].value == pytest.approx(1 / ratio, rel=0.005)
        if row["fusion_gain"] is not None and row["dtype"] == row["baseline_dtype"]:
            gain = row["device_gain"].value
            assert row["fusion_gain"].value == pytest.approx(gain, rel=0.02)
            gains += 1
    assert gains >= 15


def test_on_a_gpu_saved_work_is_that_of_the_device_and_the_rest_is_the_hosts() -> None:
    rows = [row for row, _ in _kept("nvidia-h100/bf16") if row["model"] == "transformer"]
    (graph,) = [row for row in rows if row["mode"] == "cuda-graph"]
    (slow,) = [row for row in rows if row["mode"] == "compile-cuda-graph"]
    (eager,) = [row for row in rows if predicates.is_control(row)]
    assert savings(slow, eager) is None
    assert slow["device_gain"].value == pytest.approx(760.4 / 741.6, abs=0.005)
    assert "kernels" not in slow["cause_text"]
    saved = savings(graph, eager)
    assert saved is not None
    total = 1 - 1 / graph["speedup"].value
    assert saved.overhead.value + saved.work.value == pytest.approx(total)


@pytest.mark.parametrize("study", ON_CPU)
def test_on_a_cpu_the_latency_shown_keeps_the_ratio_of_the_rows_own_rounds(study: str) -> None:
    """It is scaled by one factor to the pace of the group: that of the baselines' medians."""
    compared = 0
    for row, stored in _kept(study):
        rounds = stored["latency_rounds_s"], stored["baseline_latency_rounds_s"]
        if None not in rounds:
            ratio = statistics.median(base / mine for mine, base in zip(*rounds, strict=True))
            paired_s, latency_s = row["latency_paired_s"].value, row["latency_s"].value
            factor = paired_s * ratio / row["baseline_latency_s"].value
            assert paired_s / latency_s == pytest.approx(factor, rel=0.03)
            compared += 1
    assert compared == 18
