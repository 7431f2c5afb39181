"""Which earlier rows are reused for a case, and which are not."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modescope.bench.records import parquet
from modescope.bench.records.environment import Environment
from modescope.bench.records.joining import join
from modescope.bench.records.results import SCHEMA_VERSION
from modescope.bench.sweep.fingerprint import environment_id
from modescope.bench.sweep.prepare import Job
from modescope.bench.sweep.resume import COLUMNS, Earlier, Reuse
from tests.helpers import made_up_records
from tests.helpers.made_up_records import BUDGET, part, record
from tests.helpers.stored_rows import change

HERE = part(
    Environment,
    torch_version="2.13.0",
    driver_version=None,
    device_name="Some CPU",
    source_id="ours",
    model_source_id=None,
)
HERE = replace(HERE, environment_id=environment_id(HERE))
PLAN = replace(
    made_up_records.plan(
        compile_cache="cold", replicate=0, profile=True, memory=True, max_error=None, untuned=None
    ),
    budget=BUDGET,
)


@dataclass(frozen=True)
class Named:
    """A case with only an id."""

    case_id: str


JOB = Job(Named("case"), PLAN, HERE, refusal=None, command="python run.py")  # type: ignore[arg-type]


def measured(runs: Path, run_id: str = "20260301", **columns: Any) -> Path:
    fitting = {
        **asdict(HERE),
        "schema_version": SCHEMA_VERSION,
        "case_id": "case",
        "replicate": 0,
        "compile_cache": "cold",
        "budget": "standard",
        "budget_rank": 2,
        "budget_settings": BUDGET.settings,
        "profile": True,
        "memory": True,
        "max_error": None,
        "stopped_early": None,
        "flags": (),
        "status": "ok",
    }
    return parquet.write(record(run_id, **fitting | columns), runs)


def found(runs: Path, retry: bool = True, refusal: str | None = None, **planned: Any) -> Reuse:
    job = replace(JOB, plan=replace(PLAN, **planned), refusal=refusal)
    return Earlier(runs).find(job, retry)


def test_a_row_that_was_stopped_early_is_reused_only_by_a_sweep(tmp_path: Path) -> None:
    measured(tmp_path, stopped_early=True)
    alone, in_sweep = (replace(BUDGET, slow_half_width=width) for width in (None, 0.05))
    assert found(tmp_path, budget=in_sweep) == Reuse("20260301")
    assert found(tmp_path, budget=alone).run_id is None


def test_a_row_of_the_same_work_in_the_same_environment_is_reused(tmp_path: Path) -> None:
    measured(tmp_path)
    assert found(tmp_path) == Reuse("20260301")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"case_id": "another"}, None),
        ({"replicate": 1}, None),
        ({"compile_cache": "warm"}, "compile_cache was warm"),
        ({"budget_rank": 1, "budget": "quick"}, "only budget=quick so far"),
        ({"budget_settings": '{"block_s":1}'}, "the values of budget=standard changed"),
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
        *(
            ({"status": status}, f"status was {status}")
            for status in ("failed", "wrong_result", "oom", "timeout", "crashed")
        ),
    ],
    ids=str,
)
def test_rows_that_are_not_reused_have_a_reason(
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
    ],
    ids=str,
)
def test_columns_that_do_not_prevent_reuse(tmp_path: Path, columns: dict[str, Any]) -> None:
    measured(tmp_path, **columns)
    assert found(tmp_path) == Reuse("20260301")


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
    ],
)
def test_another_max_error_prevents_reuse_where_the_status_depends_on_it(
    tmp_path: Path,
    was: float | None,
    asked: float | None,
    columns: dict[str, Any],
    stands_in: bool,
) -> None:
    measured(tmp_path, max_error=was, **columns)
    why = None if stands_in else f"max_error was {was or 'null'}"
    answer = found(tmp_path, retry=False, max_error=asked)
    assert answer == Reuse("20260301" if stands_in else None, why)


@pytest.mark.parametrize("refusal", [None, "a CUDA graph needs an NVIDIA GPU"])
def test_a_skipped_row_is_reused_while_the_case_is_refused(
    tmp_path: Path, refusal: str | None
) -> None:
    measured(tmp_path, status="skipped", max_error=0.1)
    assert found(tmp_path, refusal=refusal) == Reuse("20260301" if refusal else None)


def test_a_row_that_ran_is_found_behind_a_skipped_one(tmp_path: Path) -> None:
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", status="skipped")
    assert found(tmp_path) == Reuse("20260301")


def test_a_failed_row_is_reused_with_retry_off(tmp_path: Path) -> None:
    measured(tmp_path, status="timeout")
    assert found(tmp_path, retry=False) == Reuse("20260301")


def test_the_newest_row_is_reused(tmp_path: Path) -> None:
    for run_id in ("20260302", "20260304", "20260303"):
        measured(tmp_path, run_id)
    measured(tmp_path, "20260305", budget="quick", budget_rank=1)
    assert found(tmp_path) == Reuse("20260304")


def test_a_case_that_failed_last_is_tried_again_despite_an_earlier_success(tmp_path: Path) -> None:
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", status="failed")
    assert found(tmp_path) == Reuse(None, "status was failed")
    assert found(tmp_path, retry=False) == Reuse("20260302")


def test_a_row_of_a_changed_budget_is_reused_for_that_budget_only(tmp_path: Path) -> None:
    measured(tmp_path, budget="standard[max_rounds=12]")
    assert found(tmp_path) == Reuse(None, "budget was standard[max_rounds=12]")
    changed = replace(BUDGET, name="standard[max_rounds=12]")
    assert found(tmp_path, budget=changed) == Reuse("20260301")


@pytest.mark.parametrize("name", ["profile", "memory"])
def test_an_additional_pass_does_not_prevent_reuse(tmp_path: Path, name: str) -> None:
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", **{name: False})
    assert found(tmp_path) == Reuse("20260301")
    without: dict[str, Any] = {name: False}
    assert found(tmp_path, **without) == Reuse("20260302")


def test_a_row_is_reused_only_once(tmp_path: Path) -> None:
    """A sweep that lists the same case twice, such as over seeds, asks for two measurements."""
    measured(tmp_path)
    earlier = Earlier(tmp_path)
    assert [earlier.find(JOB, retry=True).run_id for _ in range(2)] == ["20260301", None]


def test_without_a_study_nothing_is_reused(tmp_path: Path) -> None:
    assert found(tmp_path / "rows") == Reuse(None)


def test_files_that_are_no_runs_are_ignored(tmp_path: Path) -> None:
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
    assert found(tmp_path) == Reuse("20260301")


def test_a_damaged_row_is_measured_again(tmp_path: Path) -> None:
    path = measured(tmp_path)
    content = bytearray(path.read_bytes())
    content[4:200] = b"\0" * 196
    path.write_bytes(content)
    assert found(tmp_path) == Reuse(None)


def test_rows_of_an_older_schema_are_not_reused(tmp_path: Path) -> None:
    path = measured(tmp_path)
    change(path, schema_version=1)
    assert found(tmp_path) == Reuse(None)


def test_joined_rows_are_reused_as_loose_ones_are(tmp_path: Path) -> None:
    kept = measured(tmp_path, "20260301").read_bytes()
    measured(tmp_path, "20260302", case_id="another")
    join(tmp_path)
    assert found(tmp_path).run_id == "20260301"
    assert Earlier(tmp_path, {"case"}).find(JOB, retry=True).run_id == "20260301"
    assert Earlier(tmp_path, {"another"}).find(JOB, retry=True).run_id is None
    (tmp_path / "20260301.parquet").write_bytes(kept)  # as a killed compaction leaves it
    earlier = Earlier(tmp_path)
    assert [earlier.find(JOB, retry=True).run_id for _ in range(2)] == ["20260301", None]
