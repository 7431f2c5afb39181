"""Several processes of a case in one row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.derivations import studies_of
from tests.helpers.studies import record, replicates


def _combined(folder: Path, *cases: Iterable[Record]) -> list[Row]:
    """The row of each case, given as its processes."""
    return [row for (row,) in studies_of(folder, cases)]


def _processes(*ratios: float, **columns: Any) -> list[Record]:
    return [record(speedup=r, replicate=n, **columns) for n, r in enumerate(ratios)]


def test_three_processes_combine_to_the_interval_of_their_means(tmp_path: Path) -> None:
    # ln: -0.01, 0, 0.01 around ln 1.25: sd 0.01, error 0.01 / sqrt(3), t(2) = 4.3027
    ratios = [1.25 * math.exp(off) for off in (-0.01, 0.0, 0.01)]
    (row,) = _combined(tmp_path, _processes(*ratios))
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
    rows = _combined(tmp_path, *map(_processes, ratios), _processes(*ratios))
    assert [row["verdict"] for row in rows] == ["faster"] * 3 + ["inconclusive"]


def test_two_processes_combine_to_the_hull_of_their_intervals(tmp_path: Path) -> None:
    *alone, row = _combined(tmp_path, *map(_processes, (1.2, 1.3)), _processes(1.2, 1.3))
    assert row["speedup"] == pytest.approx(math.sqrt(1.2 * 1.3))
    assert row["speedup_ci_low"] == pytest.approx(alone[0]["speedup_ci_low"])
    assert row["speedup_ci_high"] == pytest.approx(alone[1]["speedup_ci_high"])


def test_processes_that_did_not_end_ok_are_counted_and_excluded(tmp_path: Path) -> None:
    lost = record(speedup=9.0, replicate=0, status="wrong_result", reason="why")
    kept = [record(speedup=1.25, replicate=n) for n in (1, 2)]
    row, alone = _combined(tmp_path, [lost, *kept], [lost])
    assert row["status"] == "ok"
    assert (row["replicates"], row["replicates_not_ok"]) == (2, 1)
    assert row["speedup"] == pytest.approx(1.25)
    assert (alone["status"], alone["replicates"]) == ("wrong_result", 0)


def test_a_case_is_trusted_only_if_every_process_is(tmp_path: Path) -> None:
    doubts: list[dict[str, Any]] = [
        {"in_effect": False}, {"in_effect": None}, {"checked": "not"},
        {"budget": "smoke", "budget_rank": 0},
    ]  # fmt: skip
    cases = (
        [record(replicate=0), record(replicate=1, **doubt), record(replicate=2)] for doubt in doubts
    )
    for row, doubt in zip(_combined(tmp_path, *cases), doubts, strict=True):
        assert row["replicate"] == 1
        assert {column: row[column] for column in doubt} == doubt


@pytest.mark.full
def test_a_planted_spread_is_found_and_the_interval_covers_the_true_value(tmp_path: Path) -> None:
    studies = (replicates(6, between=0.02, seed=seed) for seed in range(12))
    found = _combined(tmp_path, *studies)
    assert np.median([row["latency_process_spread"] for row in found]) == pytest.approx(
        0.02, rel=0.35
    )
    assert np.median([row["speedup_process_spread"] for row in found]) == pytest.approx(
        0.004, rel=0.35
    )
    covered = [row["speedup_ci_low"] <= 1.25 <= row["speedup_ci_high"] for row in found]
    assert sum(covered) >= 10
