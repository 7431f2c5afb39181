"""Which earlier rows stand in for a case, and which do not."""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import store
from bench.fingerprint import environment_id
from bench.records import Budget, Environment
from bench.reuse import COLUMNS, Earlier, Found, Needed
from tests.made_up import blank_record, part, record

HERE = part(
    Environment,
    torch_version="2.13.0",
    driver_version=None,
    device_name="Some CPU",
    source_id="ours",
    model_source_id=None,
)
HERE = replace(HERE, environment_id=environment_id(HERE))
STANDARD = Budget(
    name="standard",
    rank=2,
    warmup_min_s=0.5,
    warmup_max_s=5.0,
    block_s=5e-3,
    pilot_rounds=12,
    min_rounds=40,
    max_rounds=400,
    half_width=2e-3,
    timed_max_s=5.0,
    clock_rounds=20,
)
NEEDED = Needed(
    "case", 0, "cold", STANDARD, HERE, retry=True, profile=True, memory=True, max_error=None
)


def measured(runs: Path, run_id: str = "20260301", **columns: Any) -> Path:
    fitting = {
        **asdict(HERE),
        "case_id": "case",
        "replicate": 0,
        "compile_cache": "cold",
        "budget": "standard",
        "budget_rank": 2,
        "budget_settings": STANDARD.settings,
        "profile": True,
        "memory": True,
        "max_error": None,
        "flags": (),
        "status": "ok",
    }
    return store.write(record(run_id, **fitting | columns), runs)


def found(runs: Path, **needed: Any) -> Found:
    return Earlier(runs).find(replace(NEEDED, **needed))


def test_the_same_work_in_the_same_place_stands_in(tmp_path: Path) -> None:
    measured(tmp_path)
    assert found(tmp_path) == Found("20260301")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"case_id": "another"}, None),
        ({"replicate": 1}, None),
        ({"compile_cache": "warm"}, "compile_cache was warm"),
        ({"budget_rank": 1, "budget": "quick"}, "only budget=quick so far"),
        ({"budget_settings": '{"block_s":1}'}, "what budget=standard means changed"),
        ({"profile": False}, "measured with profile=false"),
        ({"memory": False}, "measured with memory=false"),
        ({"torch_version": "2.12.0"}, "torch changed"),
        ({"driver_version": "570"}, "the driver changed"),
        ({"device_name": "Another CPU"}, "the device changed"),
        ({"source_id": "older"}, "the source of modescope changed"),
        ({"model_source_id": "older"}, "the model's source changed"),
        ({"cpu_capability": "AVX512"}, "the instruction set that torch uses changed"),
        ({"cpu_instructions": "avx"}, "the CPU's instruction sets changed"),
        ({"cpu_model": None}, "the CPU's model changed"),
        ({"variables": "{}"}, "environment variables changed"),
        ({"torch_version": "2.12.0", "source_id": "x"}, "torch and the source of modescope"),
        ({"environment_id": "elsewhere"}, "the environment changed"),
        ({"environment_id": None}, "where it was measured is unknown"),
        *(
            ({"status": status}, f"ended {status}")
            for status in ("failed", "wrong_result", "oom", "timeout", "crashed")
        ),
    ],
    ids=str,
)
def test_what_does_not_stand_in_and_why(
    tmp_path: Path, columns: dict[str, Any], why: str | None
) -> None:
    measured(tmp_path, **columns)
    answer = found(tmp_path)
    assert answer.run_id is None
    assert (answer.why_not or "").startswith(why or "")
    assert (answer.why_not is None) == (why is None)


@pytest.mark.parametrize(
    "columns",
    [
        {"budget_rank": 3, "budget": "thorough", "budget_settings": "{}"},
        {"study": "other"},
        {"seed": 7},
        {"host": "other"},
        {"git_commit": "other"},
        {"load_1min": 9.0},
        {"status": "skipped"},
    ],
    ids=str,
)
def test_what_makes_no_difference(tmp_path: Path, columns: dict[str, Any]) -> None:
    measured(tmp_path, **columns)
    assert found(tmp_path) == Found("20260301")


@pytest.mark.parametrize(
    ("was", "asked", "columns", "stands_in"),
    [
        (0.1, 0.1, {}, True),
        (None, 0.1, {}, True),
        (0.1, 0.2, {}, True),
        (0.2, 0.1, {}, False),
        (0.1, None, {}, False),
        (None, 0.1, {"flags": ("drift", "baseline_wrong")}, False),
        (None, 0.1, {"flags": ("drift",)}, True),
        (None, 0.1, {"status": "wrong_result"}, False),
        (None, None, {"status": "wrong_result"}, True),
        (None, 0.1, {"status": "timeout"}, True),
        (0.1, None, {"status": "skipped"}, True),
    ],
)
def test_another_max_error_matters_where_a_row_might_end_otherwise(
    tmp_path: Path,
    was: float | None,
    asked: float | None,
    columns: dict[str, Any],
    stands_in: bool,
) -> None:
    measured(tmp_path, max_error=was, **columns)
    why = None if stands_in else f"max_error was {was or 'null'}"
    answer = found(tmp_path, retry=False, max_error=asked)
    assert answer == Found("20260301" if stands_in else None, why)


def test_a_failed_case_stands_in_where_it_is_not_to_be_tried_again(tmp_path: Path) -> None:
    measured(tmp_path, status="timeout")
    assert found(tmp_path, retry=False) == Found("20260301")


def test_the_newest_counts(tmp_path: Path) -> None:
    for run_id in ("20260302", "20260304", "20260303"):
        measured(tmp_path, run_id)
    measured(tmp_path, "20260305", budget="quick", budget_rank=1)
    assert found(tmp_path) == Found("20260304")


def test_a_case_that_failed_last_is_tried_again_even_if_it_went_well_before(tmp_path: Path) -> None:
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", status="failed")
    assert found(tmp_path) == Found(None, "ended failed")
    assert found(tmp_path, retry=False) == Found("20260302")


def test_a_budget_with_changed_values_stands_in_for_itself_alone(tmp_path: Path) -> None:
    measured(tmp_path, budget="standard[max_rounds=12]")
    assert found(tmp_path) == Found(None, "budget was standard[max_rounds=12]")
    changed = replace(STANDARD, name="standard[max_rounds=12]")
    assert found(tmp_path, budget=changed) == Found("20260301")


@pytest.mark.parametrize("name", ["profile", "memory"])
def test_a_pass_more_than_asked_for_makes_no_difference(tmp_path: Path, name: str) -> None:
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", **{name: False})
    assert found(tmp_path) == Found("20260301")
    assert found(tmp_path, **{name: False}) == Found("20260302")


def test_a_row_stands_in_only_once(tmp_path: Path) -> None:
    """A sweep that lists the same case twice, such as over seeds, asks for two measurements."""
    measured(tmp_path)
    earlier = Earlier(tmp_path)
    assert [earlier.find(NEEDED).run_id for _ in range(2)] == ["20260301", None]


def test_no_study_yet(tmp_path: Path) -> None:
    assert found(tmp_path / "runs") == Found(None)


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
    assert found(tmp_path) == Found("20260301")


def test_a_damaged_row_is_measured_again(tmp_path: Path) -> None:
    path = measured(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = b"\0" * 196
    path.write_bytes(content)
    assert found(tmp_path) == Found(None)


def test_rows_of_an_older_schema_are_counted_and_not_looked_at(tmp_path: Path) -> None:
    path = measured(tmp_path)
    old = pq.read_table(path).drop_columns(["cpu_model", "budget_settings"])
    version = old.column_names.index("schema_version")
    pq.write_table(old.set_column(version, "schema_version", [[1]]), path)
    assert Earlier(tmp_path).outdated == 1
    assert found(tmp_path) == Found(None)
