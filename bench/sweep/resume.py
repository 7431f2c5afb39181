"""Finds earlier rows that can be reused, so that a sweep continues where it stopped."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from modescope.bench.records.environment import FINGERPRINT, Environment
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.rows import ROWS, read
from modescope.bench.resolve import Request
from modescope.bench.sweep.prepare import Job

COMPARED = FINGERPRINT | {"model_source_id": "the model's source"}
"""Maps a column that must be equal in an earlier row to its name in messages."""

FINAL = (Status.OK, Status.SKIPPED)
"""Statuses of rows that are reused. A case with another status is measured again, unless
retry=false."""

CHANGED = "["
"""Part of the name of a budget with overridden values. A row with such a budget is reused only for
the same budget."""

COLUMNS = (
    *("schema_version", "run_id", "case_id", "status", "replicate", "seed", "environment_id"),
    *("budget", "budget_rank", "budget_settings", "compile_cache", "stopped_early"),
    "starts_s",
    *("profile", "memory", "explain", "max_error", "flags", *COMPARED),
)


@dataclass(frozen=True)
class Reuse:
    """Says which earlier row a job can reuse, or why it can reuse none."""

    run_id: str | None  # of the row; None: none can be reused
    why_not: str | None = None  # why the newest row of the case cannot; None: there is none


def find_earlier(jobs: Sequence[Job], request: Request, taken: Collection[str] = ()) -> list[Reuse]:
    """Returns for each job whether it can reuse an earlier row of the study.

    The settings resume and retry of `request` apply. A row is reused by one job only; `taken` has
    the run ids of rows that are in use already.
    """
    found = read(jobs[0].plan.study_folder / ROWS, COLUMNS) if request.resume else None
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    if found is not None:
        cases = pa.array(sorted({job.case.case_id for job in jobs}))
        for row in found.table.filter(pc.is_in(found.table["case_id"], cases)).to_pylist():
            if row["run_id"] not in taken:
                rows.setdefault((row["case_id"], row["replicate"]), []).append(row)
    for of_case in rows.values():
        of_case.sort(key=lambda row: str(row["run_id"]), reverse=True)
    return [
        _find(job, rows.get((job.case.case_id, job.plan.replicate), []), request.settings.retry)
        for job in jobs
    ]


def _find(job: Job, newest_first: list[dict[str, Any]], retry: bool) -> Reuse:
    """Returns which row `job` can reuse, and removes that row from the list.

    `newest_first` are the rows of the job's case. `retry`: whether to measure again what failed.
    """
    # a row skipped as a duplicate within its sweep is no answer for a case of its own
    skipped_too = bool(job.refusal)
    why_not = None
    for row in newest_first:
        if row["status"] == Status.SKIPPED and not skipped_too:
            continue
        difference = _difference(row, job.plan, job.environment)
        if difference is None:
            if row["status"] not in FINAL and retry:
                return Reuse(None, f"status was {row['status']}")
            newest_first.remove(row)
            return Reuse(row["run_id"])
        why_not = why_not or difference
    return Reuse(None, why_not)


def _difference(row: dict[str, Any], plan: Plan, environment: Environment) -> str | None:
    """Says in a few words how `row` was measured otherwise than `plan` asks; None if it was not."""
    budget = plan.budget
    differing = [
        f"{name} ({_changed(*values)})" if column == "variables" else name
        for column, name in COMPARED.items()
        if (values := (row[column], getattr(environment, column)))[0] != values[1]
    ]
    if differing or row["environment_id"] != environment.environment_id:
        return f"{' and '.join(differing) or 'the environment'} changed"
    if row["seed"] != plan.seed:
        return f"seed was {row['seed']}"
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
    if len(row["starts_s"] or ()) < plan.starts and row["status"] == Status.OK:
        return f"measured with starts={len(row['starts_s'] or ())}"
    if _status_may_differ(row, plan.max_error):
        return f"max_error was {row['max_error'] or 'null'}"
    for name in ("profile", "memory"):
        if getattr(plan, name) and not row[name]:
            return f"measured with {name}=false"
    if plan.explain not in ("false", "best", row["explain"]):
        return f"measured with explain={row['explain'] or 'false'}"
    return None


def _changed(before: str | None, now: str | None) -> str:
    """Names the environment variables whose values differ between two JSON texts."""
    old, new = (json.loads(text or "{}") for text in (before, now))
    return ", ".join(sorted(name for name in {*old, *new} if old.get(name) != new.get(name)))


def _status_may_differ(row: dict[str, Any], max_error: float | None) -> bool:
    """Returns whether `row` could get another status if it were measured with this `max_error`.

    A smaller limit may reject an accepted result, and a larger limit accept a rejected result.
    """
    before, now = row["max_error"] or 0.0, max_error or 0.0
    if row["status"] == Status.SKIPPED or before == now:
        return False
    was_wrong = row["status"] == Status.WRONG_RESULT or "baseline_wrong" in (row["flags"] or ())
    return now < before or was_wrong
