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
from modescope.bench.records.results import SCHEMA_VERSION, row
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
    variables="{}",
    model_source_id=None,
)
HERE = replace(HERE, environment_id=environment_id(HERE))
PLAN = replace(
    made_up_records.plan(
        compile_cache="cold", replicate=0, profile=True, memory=True, max_error=None, starts=0
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
        "starts_s": None,
        "flags": (),
        "status": "ok",
    }
    return parquet.write(row(record(run_id, **fitting | columns)), folder / ROWS)


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


OTHERS = {"study": "other", "host": "other", "git_commit": "other", "load_1min": 9.0}
REUSED = "reused"
WRONG = {"status": "wrong_result"}


@pytest.mark.parametrize(
    ("columns", "asked", "found"),
    [
        ({}, {}, REUSED),
        (OTHERS, {}, REUSED),
        ({"case_id": "another"}, {}, None),
        ({"replicate": 1}, {}, None),
        ({"seed": 7}, {}, "seed was 7"),
        ({"seed": 7}, {"seed": 7}, REUSED),
        ({"compile_cache": "warm"}, {}, "compile_cache was warm"),
        ({"budget_rank": 1, "budget": "quick"}, {}, "only budget=quick so far"),
        ({"budget_rank": 3, "budget": "thorough", "budget_settings": "{}"}, {}, REUSED),
        ({"budget_settings": '{"block_s":1}'}, {}, "the values of budget=standard changed"),
        ({"budget": "standard[max_rounds=12]"}, {}, "budget was standard[max_rounds=12]"),
        ({"stopped_early": True}, {}, "it was stopped early in a sweep"),
        ({"stopped_early": True}, {"budget": replace(BUDGET, slow_half_width=0.05)}, REUSED),
        ({"profile": False}, {}, "measured with profile=false"),
        ({"profile": False}, {"profile": False}, REUSED),
        ({"memory": False}, {}, "measured with memory=false"),
        ({"model_source_id": "older"}, {}, "the model's source changed"),
        ({"torch_version": "2.12.0", "source_id": "x"}, {},
         "torch and the source of modescope changed"),
        ({"variables": '{"OMP_A":"1","TORCH_B":"1"}'}, {},
         "environment variables (OMP_A, TORCH_B) changed"),
        ({"environment_id": "elsewhere"}, {}, "the environment changed"),
        ({"status": "crashed"}, {}, "status was crashed"),
        ({"status": "timeout"}, {"retry": False}, REUSED),
        ({"status": "skipped"}, {}, None),
        ({"status": "skipped", "max_error": 0.1}, {"refusal": "it needs a GPU"}, REUSED),
        ({"starts_s": (1.0, 2.0)}, {"starts": 2}, REUSED),
        ({"starts_s": (1.0, 2.0)}, {"starts": 3}, "measured with starts=2"),
        ({"starts_s": (1.0, 2.0)}, {"starts": 1}, REUSED),
        ({"starts_s": (1.0, 2.0)}, {}, REUSED),
        ({}, {"starts": 1}, "measured with starts=0"),
        ({"status": "timeout"}, {"starts": 1, "retry": False}, REUSED),
        # another max_error counts where the status depends on it
        ({}, {"max_error": 0.1}, REUSED),
        ({"max_error": 0.2}, {"max_error": 0.1}, "max_error was 0.2"),
        ({"max_error": 0.1}, {}, "max_error was 0.1"),
        ({"flags": ("drift",)}, {"max_error": 0.1}, REUSED),
        ({"flags": ("drift", "baseline_wrong")}, {"max_error": 0.1}, "max_error was null"),
        (WRONG, {"max_error": 0.1, "retry": False}, "max_error was null"),
        (WRONG, {"retry": False}, REUSED),
    ],
    ids=str,
)  # fmt: skip
def test_a_row_of_the_same_work_in_the_same_environment_is_reused_others_have_a_reason(
    tmp_path: Path, columns: dict[str, Any], asked: dict[str, Any], found: str | None
) -> None:
    measured(tmp_path, **columns)
    (answer,) = reuses(tmp_path, **asked)
    assert (REUSED if answer.run_id else answer.why_not) == found


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
