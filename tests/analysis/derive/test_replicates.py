"""Several processes of a case in one row."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modescope.analysis.format.phrases import Row
from modescope.bench.records.results import Record
from tests.helpers.derivations import studies_of
from tests.helpers.studies import record


def _combined(folder: Path, *cases: Iterable[Record]) -> list[Row]:
    """The row of each case, given as its processes."""
    return [row for (row,) in studies_of(folder, cases)]


def _processes(*ratios: float, **columns: Any) -> list[Record]:
    return [record(speedup=r, replicate=n, **columns) for n, r in enumerate(ratios)]


def test_processes_that_disagree_make_a_verdict_inconclusive(tmp_path: Path) -> None:
    ratios = (1.02, 1.10, 1.06)  # each of them is faster by itself
    rows = _combined(tmp_path, *map(_processes, ratios), _processes(*ratios))
    assert [row["verdict"] for row in rows] == ["faster"] * 3 + ["inconclusive"]


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
