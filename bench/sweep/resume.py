"""Reuse of earlier rows, so that a sweep continues where it stopped, and reasons against it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from modescope.bench.records.cases import Plan
from modescope.bench.records.environment import Environment
from modescope.bench.records.fingerprint_columns import FINGERPRINT
from modescope.bench.records.results import SCHEMA_VERSION
from modescope.bench.records.sources import RUNS, each_part
from modescope.bench.resolve import Request
from modescope.bench.sweep import earlier_parts
from modescope.bench.sweep.jobs import Job

COMPARED = FINGERPRINT | {"model_source_id": "the model's source"}
"""Columns in which an earlier row must be equal, and their names in messages."""

FINAL = ("ok", "skipped")
"""Statuses that are not measured again; cases with others are, unless retry=false."""

CHANGED = "["
"""Marks the name of a budget with overridden values, which matches only itself."""

NEVER_NULL = {
    **dict.fromkeys(("run_id", "case_id", "status", "budget", "compile_cache"), str),
    **dict.fromkeys(("budget_rank", "replicate"), int),
}
"""Columns that are never null, and their types."""

COLUMNS = (
    *("schema_version", *NEVER_NULL, "environment_id", "budget_settings"),
    *("profile", "memory", "max_error", "flags", "stopped_early"),
    *("versus_block", "versus_state", *COMPARED),
)

ADDED = ("stopped_early", "versus_block", "versus_state")
"""Columns that older files of this schema lack."""

EarlierRow = dict[str, Any]


@dataclass(frozen=True)
class Reuse:
    """The run id of the reusable row; or None, and why the newest row of the case is not reused."""

    run_id: str | None
    why_not: str | None = None
    versus_block: int | None = None  # of the reusable row
    versus_state: str | None = None  # of the reusable row


class Earlier:
    """The rows of a study, read once."""

    def __init__(self, runs: Path, cases: Collection[str] | None = None) -> None:
        """`runs`: the study's folder of that name; `cases`: the only case ids asked for."""
        self.outdated = 0  # rows of an older schema, which are never reused
        self.last_block: int | None = None  # largest number of a block of versus
        self._rows: dict[tuple[str, int], list[EarlierRow]] = {}
        self._known: set[str] = set()  # run ids: a run may be in a file and in a part
        for path in sorted(runs.glob("[!.]*.parquet")):  # before the parts, see records.sources
            rows = _readable(path)
            self.outdated += sum(row["schema_version"] < SCHEMA_VERSION for row in rows)
            self._note(rows)
        read = partial(earlier_parts.read, columns=COLUMNS, added=ADDED, cases=cases)
        self._parts = each_part(runs.parent, read)
        self._loaded: set[str] = set()  # cases whose rows in parts are in `_rows`
        for part in self._parts:
            self.outdated += len(part.outdated - self._known)
            self._known |= part.outdated
            self._note_block(part.last_block)

    def find(self, job: Job, retry: bool) -> Reuse:
        """The newest row that `job` can reuse, each row only once; with `retry` no failed one."""
        self._load(job.case.case_id)
        rows = self._rows.get((job.case.case_id, job.plan.replicate), [])
        # others were skipped beside another case of their sweep
        skipped_too = bool(job.refusal or job.plan.untuned)
        fitting = [row for row in rows if skipped_too or row["status"] != "skipped"]
        newest_first = sorted(fitting, key=lambda row: str(row["run_id"]), reverse=True)
        differences = [_difference(row, job.plan, job.environment) for row in newest_first]
        if None not in differences:
            return Reuse(None, differences[0] if differences else None)
        row = newest_first[differences.index(None)]
        if row["status"] not in FINAL and retry:
            return Reuse(None, f"status was {row['status']}")
        rows.remove(row)
        return Reuse(row["run_id"], None, row.get("versus_block"), row.get("versus_state"))

    def _load(self, case_id: str) -> None:
        """Adds the rows of a case that are in parts."""
        if case_id not in self._loaded:
            self._loaded.add(case_id)
            for part in self._parts:
                rows = part.of_case(case_id)
                self._note([row for row in rows if row["run_id"] not in self._known])

    def _note(self, rows: Sequence[EarlierRow]) -> None:
        self._known |= {row["run_id"] for row in rows if isinstance(row.get("run_id"), str)}
        for row in filter(_is_ours, rows):
            self._note_block(row.get("versus_block"))
            self._rows.setdefault((row["case_id"], row["replicate"]), []).append(row)

    def _note_block(self, block: int | None) -> None:
        if block is not None:
            self.last_block = max(block, self.last_block or 0)


@dataclass(frozen=True)
class Found:
    """What a study holds of the jobs of a command: a `Reuse` for each of them, in their order."""

    reuses: tuple[Reuse, ...]
    outdated: int = 0  # rows of an older schema
    last_block: int | None = None  # of versus


def found(todo: Sequence[Job], request: Request) -> Found:
    """The rows of the study that `todo` can reuse, with resume and retry of `request`."""
    cases = {job.case.case_id for job in todo}
    earlier = Earlier(todo[0].plan.study_folder / RUNS, cases)
    if not request.resume:
        return Found((Reuse(None),) * len(todo), 0, earlier.last_block)
    retry = request.settings.retry
    reuses = tuple(earlier.find(job, retry) for job in todo)
    return Found(reuses, earlier.outdated, earlier.last_block)


def _difference(row: EarlierRow, plan: Plan, environment: Environment) -> str | None:
    """How `row` was measured differently, in a few words, or None."""
    budget = plan.budget
    if row["environment_id"] is None:
        return "the environment of the earlier row is unknown"
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
    if row.get("stopped_early") and budget.slow_half_width is None:
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


def _readable(path: Path) -> list[EarlierRow]:
    """The file's row, if it has a schema version; unreadable files are measured again."""
    try:
        rows: list[EarlierRow] = pq.ParquetFile(path).read(columns=list(COLUMNS)).to_pylist()
    except (pa.ArrowException, OSError, ValueError):  # ValueError: a name is not valid text
        return []
    return [row for row in rows if isinstance(row.get("schema_version"), int)]


def _is_ours(row: EarlierRow) -> bool:
    """Whether the row has all current columns, with values of the right types."""
    return row.keys() >= set(COLUMNS) - {*ADDED} and all(
        isinstance(row[name], kind) for name, kind in NEVER_NULL.items()
    )
