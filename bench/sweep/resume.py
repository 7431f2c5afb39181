"""Reuse of earlier rows, so that a sweep continues where it stopped, and reasons against it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from modescope.bench.records.cases import Plan
from modescope.bench.records.environment import FINGERPRINT, Environment
from modescope.bench.records.rows import ROWS, read
from modescope.bench.resolve import Request
from modescope.bench.sweep.prepare import Job

COMPARED = FINGERPRINT | {"model_source_id": "the model's source"}
"""Columns in which an earlier row must be equal, and their names in messages."""

FINAL = ("ok", "skipped")
"""Statuses that are not measured again; cases with others are, unless retry=false."""

CHANGED = "["
"""Marks the name of a budget with overridden values, which matches only itself."""

COLUMNS = (
    *("schema_version", "run_id", "case_id", "status", "replicate", "environment_id"),
    *("budget", "budget_rank", "budget_settings", "compile_cache", "stopped_early"),
    *("profile", "memory", "max_error", "flags", *COMPARED),
)

EarlierRow = dict[str, Any]


@dataclass(frozen=True)
class Reuse:
    """The run id of the reusable row; or None, and why the newest row of the case is not reused."""

    run_id: str | None
    why_not: str | None = None


def find_earlier(jobs: Sequence[Job], request: Request, taken: Collection[str] = ()) -> list[Reuse]:
    """What the study holds of each of `jobs`, with resume and retry of `request`.

    `taken`: run ids of rows that other cases have reused.
    """
    if not request.resume:
        return [Reuse(None)] * len(jobs)
    earlier = Earlier(jobs[0].plan.study_folder / ROWS, {job.case.case_id for job in jobs})
    return [earlier.find(job, request.settings.retry, taken) for job in jobs]


class Earlier:
    """The rows of a study, read once."""

    def __init__(self, folder: Path, cases: Collection[str] | None = None) -> None:
        """`folder`: the study's folder of rows; `cases`: the only case ids asked for."""
        self._rows: dict[tuple[str, int], list[EarlierRow]] = {}
        found = read(folder, COLUMNS)
        if found is None:
            return
        table = found.table
        if cases is not None:
            table = table.filter(pc.is_in(table["case_id"], pa.array([*cases], pa.string())))
        for row in table.to_pylist():
            self._rows.setdefault((row["case_id"], row["replicate"]), []).append(row)

    def find(self, job: Job, retry: bool, taken: Collection[str] = ()) -> Reuse:
        """The newest row that `job` can reuse, each row only once; with `retry` no failed one."""
        rows = self._rows.get((job.case.case_id, job.plan.replicate), [])
        # others were skipped beside another case of their sweep
        skipped_too = bool(job.refusal or job.plan.untuned)
        fitting = [
            row
            for row in rows
            if row["run_id"] not in taken and (skipped_too or row["status"] != "skipped")
        ]
        newest_first = sorted(fitting, key=lambda row: str(row["run_id"]), reverse=True)
        differences = [_difference(row, job.plan, job.environment) for row in newest_first]
        if None not in differences:
            return Reuse(None, differences[0] if differences else None)
        row = newest_first[differences.index(None)]
        if row["status"] not in FINAL and retry:
            return Reuse(None, f"status was {row['status']}")
        rows.remove(row)
        return Reuse(row["run_id"])


def _difference(row: EarlierRow, plan: Plan, environment: Environment) -> str | None:
    """How `row` was measured differently, in a few words, or None."""
    budget = plan.budget
    differing = [
        name for column, name in COMPARED.items() if row[column] != getattr(environment, column)
    ]
    if differing or row["environment_id"] != environment.environment_id:
        return f"{' and '.join(differing) or 'the environment'} changed"
    if row["budget_rank"] < budget.rank:
        return f"only budget={row['budget']} so far"
    if row["budget"] != budget.name and CHANGED in row["budget"] + budget.name:
        return f"budget was {row['budget']}"
    if row["budget"] == budget.name and row["budget_settings"] != budget.settings:
        return f"the values of budget={row['budget']} changed"
    if row["stopped_early"] and budget.slow_half_width is None:
        return "it was stopped early in a sweep"
    if row["compile_cache"] != plan.compile_cache:
        return f"compile_cache was {row['compile_cache']}"
    if _status_may_differ(row, plan.max_error):
        return f"max_error was {row['max_error'] or 'null'}"
    for name in ("profile", "memory"):
        if getattr(plan, name) and not row[name]:
            return f"measured with {name}=false"
    return None


def _status_may_differ(row: EarlierRow, max_error: float | None) -> bool:
    """Whether the row's status might differ with this `max_error`.

    A smaller one may refuse what was accepted; a larger one may accept what was refused.
    """
    before, now = row["max_error"] or 0.0, max_error or 0.0
    if row["status"] == "skipped" or before == now:
        return False
    was_wrong = row["status"] == "wrong_result" or "baseline_wrong" in (row["flags"] or ())
    return now < before or was_wrong
