"""The summary of a row: from its samples when it is measured, and the same when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from modescope.analysis import load, restat
from modescope.bench import summary as made
from modescope.bench.records import parquet
from modescope.bench.records.results import Record, row
from modescope.bench.records.summary_columns import SUMMARY
from modescope.bench.stats.estimates import Estimate
from modescope.bench.summary import summary
from tests.helpers.commands import rows_in
from tests.helpers.paths import REFERENCE
from tests.helpers.studies import cpu_sweep, cuda_sweep, record, training

RECORDS = (*cuda_sweep(), *cpu_sweep("mlp"), training("amp", 1e-3, parts_s=(4e-4, 3e-4, 2e-4)))


def stored(folder: Path, records: tuple[Record, ...] = RECORDS) -> Path:
    for one in records:
        parquet.write(row(one) | summary(row(one)), folder / "rows")
    return folder


def test_the_speedup_knows_the_order_of_the_rounds() -> None:
    first = np.random.default_rng(0).permutation(np.arange(41) < 21)
    noise = np.random.default_rng(1).normal(0, 0.002, (2, 41))
    rounds: dict[str, Any] = {
        "latency_rounds_s": tuple(np.exp(noise[0] + np.where(first, 0, 0.02)).tolist()),
        "baseline_latency_rounds_s": tuple(np.exp(noise[1] + np.where(first, 0.02, 0)).tolist()),
    }
    known = summary(row(record(**rounds, case_ran_first=tuple(first.tolist()))))
    unknown = summary(row(record(**rounds, case_ran_first=None)))
    assert known["speedup"] == pytest.approx(1, abs=0.002)
    assert unknown["speedup"] > 1.01  # 21 of the 41 rounds favour the case


def _slowed(device: str, slow: int, best_s: float | None = 20e-6) -> dict[str, Any]:
    """The summary of a row of 40 rounds, in `slow` of which the host took twice its time.

    There the baseline, which waits for the host, took 1.5 times as long, and the case did not.
    """
    paces = [40e-6 if at < slow else 20e-6 for at in range(40)]
    return summary(row(record(
        device=device, latency_rounds_s=(1e-3,) * 40, pace_rounds_s=tuple(paces),
        baseline_latency_rounds_s=tuple(1.5e-3 if pace > 20e-6 else 1e-3 for pace in paces),
        case_ran_first=(True, False) * 20, best_pace_s=best_s,
    )))  # fmt: skip


@pytest.mark.parametrize(
    ("device", "slow", "speedup", "rounds"),
    [
        ("cuda", 0, 1.0, (40, 0)),
        ("cuda", 28, 1.0, (12, 28)),
        ("cuda", 29, 1.5, (40, 0)),  # 11 rounds give no interval
        ("cuda", 40, 1.5, (40, 0)),
        ("cpu", 28, 1.5, (40, 0)),
    ],
)
def test_on_a_gpu_rounds_of_a_slow_host_do_not_count(
    device: str, slow: int, speedup: float, rounds: tuple[int, int]
) -> None:
    found = _slowed(device, slow)
    assert found["speedup"] == pytest.approx(speedup)
    assert (found["rounds"], found["slow_rounds"]) == rounds
    assert found["pace_typical_s"] == pytest.approx(40e-6 if speedup > 1 else 20e-6)
    assert found["verdict"] == ("inconclusive" if device == "cuda" and speedup > 1 else "equivalent"
                                if speedup == 1 else "faster")  # fmt: skip
    if 2 < slow < 38:
        assert found["pace_slowest"] == pytest.approx(0.5)


def test_the_best_pace_of_earlier_rows_says_that_a_host_is_slow_throughout() -> None:
    assert _slowed("cuda", 40, None)["pace_fastest_s"] == pytest.approx(40e-6)
    assert _slowed("cuda", 40)["pace_fastest_s"] == pytest.approx(20e-6)


@pytest.mark.parametrize(("factor", "expected"), [(0.999, False), (1.001, True)])
def test_clocks_differ_beyond_the_tolerance_in_either_direction(
    factor: float, expected: bool
) -> None:
    low = Estimate(1.0, 0.9, 1.1)
    high = Estimate(2.0, 1.1 * (1 + made.TOLERANCE) * factor, 3.0)
    assert made.differ(low, high) is made.differ(high, low) is expected


@pytest.mark.parametrize("study", ["intel-xeon-2-cores", "amd-epyc-2-cores/zoo-train"])
def test_a_kept_row_has_the_summary_of_its_samples(study: str) -> None:
    (path,) = (REFERENCE / study / "rows").iterdir()
    for kept in rows_in(path)[:5]:
        assert {name: kept[name] for name in SUMMARY.names} == summary(kept)


def test_a_summarised_row_is_read_without_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path)
    monkeypatch.setattr(load, "SCHEMA", None)  # with the names of the samples
    assert len(load.read(tmp_path).table) == len(RECORDS)


def test_rows_of_other_formulas_are_computed_as_they_are_read_and_by_restat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(made, "VERSION", made.VERSION + 1)
    stored(tmp_path)
    expected = load.read(tmp_path).table
    monkeypatch.undo()
    pd.testing.assert_frame_equal(load.read(tmp_path).table, expected)
    assert restat.main([str(tmp_path)]) == 0
    assert f"{len(RECORDS)} rows summarised" in capsys.readouterr().out
    assert set(pd.read_parquet(tmp_path / "rows")["summary_version"]) == {made.VERSION}
    pd.testing.assert_frame_equal(load.read(tmp_path).table, expected)
