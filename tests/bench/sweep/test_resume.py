"""Which earlier rows are reused for a case, and which are not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modescope.bench.records import parquet
from modescope.bench.records.environment import Environment
from modescope.bench.records.results import SCHEMA_VERSION
from modescope.bench.records.rows import ROWS
from modescope.bench.sweep.fingerprint import environment_id
from modescope.bench.sweep.prepare import Job
from modescope.bench.sweep.resume import Reuse, find_earlier
from tests.helpers import made_up_records
from tests.helpers.made_up_records import BUDGET, part, record

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


def measured(folder: Path, run_id: str = "20260301", **columns: Any) -> Path:
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
    return parquet.write(record(run_id, **fitting | columns), folder / ROWS)


def reuses(
    results: Path,
    count: int = 1,
    retry: bool = True,
    refusal: str | None = None,
    taken: Collection[str] = (),
    **planned: Any,
) -> list[Reuse]:
    """What `count` jobs for the case find."""
    plan = replace(PLAN, results_dir=str(results.parent), study=results.name, **planned)
    job = replace(JOB, plan=plan, refusal=refusal)
    request: Any = SimpleNamespace(resume=True, settings=SimpleNamespace(retry=retry))
    return find_earlier([job] * count, request, taken)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"case_id": "another"}, None),
        ({"replicate": 1}, None),
        ({"compile_cache": "warm"}, "compile_cache was warm"),
        ({"budget_rank": 1, "budget": "quick"}, "only budget=quick so far"),
        ({"budget_settings": '{"block_s":1}'}, "the values of budget=standard changed"),
        ({"budget": "standard[max_rounds=12]"}, "budget was standard[max_rounds=12]"),
        ({"stopped_early": True}, "it was stopped early in a sweep"),
        ({"profile": False}, "measured with profile=false"),
        ({"memory": False}, "measured with memory=false"),
        ({"model_source_id": "older"}, "the model's source changed"),
        ({"torch_version": "2.12.0", "source_id": "x"}, "torch and the source of modescope"),
        ({"environment_id": "elsewhere"}, "the environment changed"),
        ({"status": "crashed"}, "status was crashed"),
        ({"status": "skipped"}, None),
    ],
    ids=str,
)
def test_rows_that_are_not_reused_have_a_reason(
    tmp_path: Path, columns: dict[str, Any], why: str | None
) -> None:
    measured(tmp_path, **columns)
    (answer,) = reuses(tmp_path)
    assert answer.run_id is None
    assert (answer.why_not or "").startswith(why or "")
    assert (answer.why_not is None) == (why is None)


OTHERS = {"study": "other", "seed": 7, "host": "other", "git_commit": "other", "load_1min": 9.0}


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ({}, {}),
        (OTHERS, {}),
        ({"budget_rank": 3, "budget": "thorough", "budget_settings": "{}"}, {}),
        ({"stopped_early": True}, {"budget": replace(BUDGET, slow_half_width=0.05)}),
        ({"profile": False}, {"profile": False}),
        ({"memory": False}, {"memory": False}),
        ({"status": "timeout"}, {"retry": False}),
        ({"status": "skipped", "max_error": 0.1}, {"refusal": "it needs a GPU"}),
        ({"status": "skipped"}, {"untuned": "compile"}),
    ],
    ids=str,
)
def test_a_row_of_the_same_work_in_the_same_environment_is_reused(
    tmp_path: Path, columns: dict[str, Any], asked: dict[str, Any]
) -> None:
    measured(tmp_path, **columns)
    assert reuses(tmp_path, **asked) == [Reuse("20260301")]


@pytest.mark.parametrize(
    ("was", "asked", "columns", "stands_in"),
    [
        (None, 0.1, {}, True),
        (0.2, 0.1, {}, False),
        (0.1, None, {}, False),
        (None, 0.1, {"flags": ("drift", "baseline_wrong")}, False),
        (None, 0.1, {"flags": ("drift",)}, True),
        (None, 0.1, {"status": "wrong_result"}, False),
        (None, None, {"status": "wrong_result"}, True),
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
    answer = reuses(tmp_path, retry=False, max_error=asked)
    assert answer == [Reuse("20260301" if stands_in else None, why)]


@pytest.mark.parametrize(
    ("newer", "asked", "expected"),
    [
        ({}, {}, Reuse("20260302")),
        ({"budget": "quick", "budget_rank": 1}, {}, Reuse("20260301")),
        ({"status": "skipped"}, {}, Reuse("20260301")),
        ({"status": "failed"}, {}, Reuse(None, "status was failed")),  # despite a success
        ({"status": "failed"}, {"retry": False}, Reuse("20260302")),
    ],
)
def test_of_two_rows_the_newest_that_fits_is_reused(
    tmp_path: Path, newer: dict[str, Any], asked: dict[str, Any], expected: Reuse
) -> None:
    measured(tmp_path, "20260302", **newer)
    measured(tmp_path, "20260301")
    assert reuses(tmp_path, **asked) == [expected]


def test_a_row_is_reused_only_once(tmp_path: Path) -> None:
    """A sweep that lists a case twice, such as over seeds, asks for two measurements."""
    assert reuses(tmp_path) == [Reuse(None)]
    measured(tmp_path, "20260301")
    measured(tmp_path, "20260302", case_id="another")
    assert reuses(tmp_path, count=2) == [Reuse("20260301"), Reuse(None)]
    assert reuses(tmp_path, taken={"20260301"}) == [Reuse(None)]
