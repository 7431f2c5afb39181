"""Which earlier rows stand in for a case, and which do not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import store
from bench.reuse import COLUMNS, Earlier, Needed
from tests.made_up import blank_record, record

NEEDED = Needed("case", "here", "cold", 2)


def measured(runs: Path, run_id: str = "20260301", **columns: Any) -> Path:
    fitting = {
        "case_id": "case",
        "environment_id": "here",
        "compile_cache": "cold",
        "budget_rank": 2,
    }
    return store.write(record(run_id, **fitting | columns), runs)


def test_the_same_work_in_the_same_place_stands_in(tmp_path: Path) -> None:
    measured(tmp_path)
    assert Earlier(tmp_path).run_id(NEEDED) == "20260301"


@pytest.mark.parametrize(
    "columns",
    [
        {"case_id": "another"},
        {"environment_id": "elsewhere"},
        {"environment_id": None},
        {"compile_cache": "warm"},
        {"budget_rank": 1},
        *({"status": status} for status in ("skipped", "failed", "wrong_result", "oom", "timeout")),
        {"status": "crashed"},
    ],
    ids=str,
)
def test_what_does_not_stand_in(tmp_path: Path, columns: dict[str, Any]) -> None:
    measured(tmp_path, **columns)
    assert Earlier(tmp_path).run_id(NEEDED) is None


def test_an_unknown_environment_is_never_the_same(tmp_path: Path) -> None:
    measured(tmp_path, environment_id=None)
    assert Earlier(tmp_path).run_id(replace(NEEDED, environment_id="")) is None


@pytest.mark.parametrize(
    "columns", [{"budget_rank": 3}, {"study": "other"}, {"seed": 7}, {"host": "other"}], ids=str
)
def test_what_makes_no_difference(tmp_path: Path, columns: dict[str, Any]) -> None:
    measured(tmp_path, **columns)
    assert Earlier(tmp_path).run_id(NEEDED) == "20260301"


def test_the_newest_counts(tmp_path: Path) -> None:
    for run_id in ("20260302", "20260304", "20260303"):
        measured(tmp_path, run_id)
    measured(tmp_path, "20260305", status="failed")
    assert Earlier(tmp_path).run_id(NEEDED) == "20260304"


def test_no_study_yet(tmp_path: Path) -> None:
    assert Earlier(tmp_path / "runs").run_id(NEEDED) is None


def test_files_that_are_not_ours_are_passed_over(tmp_path: Path) -> None:
    whole = measured(tmp_path, "20260301").read_bytes()
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("not Parquet at all")
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "headless.parquet").write_bytes(whole[100:])
    (tmp_path / ".20260309.parquet.partial").write_bytes(whole)
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "folder.parquet").mkdir()
    shutil.copy(tmp_path / "20260301.parquet", tmp_path / "folder.parquet" / "20260309.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "foreign.parquet")
    pq.write_table(pa.table({name: [1.5] for name in COLUMNS}), tmp_path / "odd.parquet")
    pq.write_table(pa.table({name: ["ok"] for name in COLUMNS}), tmp_path / "words.parquet")
    store.write(blank_record("20260309"), tmp_path)
    assert Earlier(tmp_path).run_id(NEEDED) == "20260301"


def test_a_damaged_row_is_measured_again(tmp_path: Path) -> None:
    path = measured(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = b"\0" * 196
    path.write_bytes(content)
    assert Earlier(tmp_path).run_id(NEEDED) is None
