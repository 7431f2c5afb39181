from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.derive.registry import derived
from modescope.bench.records.results import Record
from tests.helpers.studies import cpu_clocks, record, replicates, save


def _one(folder: Path, *records: Record) -> dict[str, Any]:
    (row,) = derived(save(records, folder)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def _processes(*ratios: float, **columns: Any) -> list[Record]:
    return [record(speedup=r, replicate=n, **columns) for n, r in enumerate(ratios)]


def test_three_processes_combine_to_the_interval_of_their_means(tmp_path: Path) -> None:
    # ln: -0.01, 0, 0.01 around ln 1.25: sd 0.01, error 0.01 / sqrt(3), t(2) = 4.3027
    ratios = [1.25 * math.exp(off) for off in (-0.01, 0.0, 0.01)]
    row = _one(tmp_path, *_processes(*ratios))
    half = 4.3027 * 0.01 / math.sqrt(3)
    assert row["speedup"] == pytest.approx(1.25, rel=1e-4)
    assert row["speedup_ci_low"] == pytest.approx(1.25 * math.exp(-half), rel=1e-4)
    assert row["speedup_ci_high"] == pytest.approx(1.25 * math.exp(half), rel=1e-4)
    assert row["speedup_process_spread"] == pytest.approx(0.01, rel=1e-3)
    assert row["latency_process_spread"] == pytest.approx(0, abs=1e-9)
    assert row["verdict"] == "faster"
    assert (row["replicates"], row["rounds"]) == (3, 40)


def test_processes_that_disagree_make_a_verdict_inconclusive(tmp_path: Path) -> None:
    ratios = (1.02, 1.10, 1.06)  # each of them is faster by itself
    assert all(_one(tmp_path / f"{r}", *_processes(r))["verdict"] == "faster" for r in ratios)
    assert _one(tmp_path / "all", *_processes(*ratios))["verdict"] == "inconclusive"


def test_two_processes_combine_to_the_hull_of_their_intervals(tmp_path: Path) -> None:
    alone = [_one(tmp_path / str(r), *_processes(r)) for r in (1.2, 1.3)]
    row = _one(tmp_path / "both", *_processes(1.2, 1.3))
    assert row["speedup"] == pytest.approx(math.sqrt(1.2 * 1.3))
    assert row["speedup_ci_low"] == pytest.approx(alone[0]["speedup_ci_low"])
    assert row["speedup_ci_high"] == pytest.approx(alone[1]["speedup_ci_high"])


@pytest.mark.parametrize(("count", "known"), [(1, True), (2, False), (3, False)])
def test_the_minimum_detectable_effect_is_of_one_process_only(
    tmp_path: Path, count: int, known: bool
) -> None:
    rows = derived(save(_processes(*[1.25] * count), tmp_path))
    assert rows["mde"].notna().tolist() == [known]


def test_clocks_and_percentiles_are_combined(tmp_path: Path) -> None:
    runs = [record(replicate=n, **cpu_clocks(4e-4, d)) for n, d in enumerate((1e-4, 4e-4))]
    row = _one(tmp_path, *runs)
    assert row["dispatch_s"] == pytest.approx(2e-4)
    assert row["latency_p95_s"] == pytest.approx(_one(tmp_path / "one", runs[0])["latency_p95_s"])


def test_one_process_keeps_its_interval_and_has_no_spread(tmp_path: Path) -> None:
    row = _one(tmp_path, *_processes(1.25))
    assert row["speedup_ci_low"] == pytest.approx(1.25 * math.exp(-0.02 * 13 / 39), rel=1e-3)
    assert math.isnan(row["speedup_process_spread"])
    assert row["replicates"] == 1


def test_processes_that_did_not_end_ok_are_counted_and_excluded(tmp_path: Path) -> None:
    lost = record(speedup=9.0, replicate=0, status="wrong_result", reason="why")
    kept = [record(speedup=1.25, replicate=n) for n in (1, 2)]
    row = _one(tmp_path, lost, *kept)
    assert row["status"] == "ok"
    assert (row["replicates"], row["replicates_not_ok"]) == (2, 1)
    assert row["speedup"] == pytest.approx(1.25)
    alone = _one(tmp_path / "alone", lost)
    assert (alone["status"], alone["replicates"]) == ("wrong_result", 0)


@pytest.mark.parametrize("doubt", [{"in_effect": False}, {"in_effect": None}, {"checked": "not"},
                                   {"budget": "smoke", "budget_rank": 0}])  # fmt: skip
def test_a_case_is_trusted_only_if_every_process_is(tmp_path: Path, doubt: dict[str, Any]) -> None:
    row = _one(tmp_path, record(replicate=0), record(replicate=1, **doubt), record(replicate=2))
    assert row["replicate"] == 1
    for column, value in doubt.items():
        assert row[column] is None if value is None else row[column] == value


def test_a_case_has_the_flags_of_all_its_processes(tmp_path: Path) -> None:
    row = _one(
        tmp_path,
        record(replicate=0, flags=("drift",)),
        record(replicate=1, flags=("bimodal", "drift")),
    )
    assert row["flags"] == ["drift", "bimodal"]


@pytest.mark.full
def test_a_planted_spread_is_found_and_the_interval_covers_the_true_value(tmp_path: Path) -> None:
    found = [
        _one(tmp_path / f"{seed}", *replicates(6, between=0.02, seed=seed)) for seed in range(12)
    ]
    assert np.median([row["latency_process_spread"] for row in found]) == pytest.approx(
        0.02, rel=0.35
    )
    assert np.median([row["speedup_process_spread"] for row in found]) == pytest.approx(
        0.004, rel=0.35
    )
    covered = [row["speedup_ci_low"] <= 1.25 <= row["speedup_ci_high"] for row in found]
    assert sum(covered) >= 10
