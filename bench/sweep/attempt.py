"""One attempt at a case: measures it in its own process and writes its row."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from modescope.bench.records import files, parquet, results, rows
from modescope.bench.records.cases import Plan
from modescope.bench.records.environment import Scheduling, scheduling
from modescope.bench.records.results import Findings, Record, Result
from modescope.bench.steps import backends
from modescope.bench.summary import summary
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import ChildOutcome
from modescope.bench.sweep.prepare import Job

OnPhase = Callable[[str], None]
"""Called with the name of each phase of measuring that begins, such as `first call`."""

Row = dict[str, Any]
"""The columns of a row by name."""


@dataclass(frozen=True)
class Place:
    """The place of a process in its sweep or versus, as columns; None where there is neither."""

    case_order: str | None = None  # random | given
    position: int | None = None  # in that order, from 0
    versus_block: int | None = None  # when its block began, in ms since 1970
    versus_side: str | None = None  # old | new
    versus_state: str | None = None  # what is measured on that side
    confirms: str | None = None  # id of the run whose case is measured once more


ALONE = Place()
"""The place of a case that is measured alone."""


def remove_abandoned_files(plan: Plan) -> None:
    """Removes half-written files of killed processes from the study's folders, and their caches."""
    study = plan.study_folder
    files.remove_abandoned(study / rows.ROWS, study / "traces", Path(plan.results_dir))


def attempt(
    job: Job,
    on_phase: OnPhase = lambda phase: None,
    place: Place = ALONE,
    where: Scheduling | None = None,
    folder: str = rows.ROWS,
) -> Row:
    """Runs one job in its own process; writes and returns its row, whatever its status.

    With `where` None the environment variables tell the scheduler. `folder` is the folder in the
    study that the row is written to.
    """
    begin, started_at, load = monotonic(), datetime.now(UTC).isoformat(), os.getloadavg()[0]
    run_id, plan = new_run_id(), job.plan
    result = _result(job, run_id, on_phase)
    record = Record(
        results.Attempt(
            schema_version=results.SCHEMA_VERSION,
            run_id=run_id,
            case_id=job.case.case_id,
            study=plan.study,
            started_at=started_at,
            budget=plan.budget.name,
            budget_rank=plan.budget.rank,
            budget_settings=plan.budget.settings,
            seed=plan.seed,
            replicate=plan.replicate,
            status=result.status,
            reason=result.reason,
            duration_s=monotonic() - begin,
            command=job.command,
            **asdict(place),
            profile=plan.profile,
            memory=plan.memory,
            max_error=plan.max_error,
        ),
        results.work_of(job.case, plan),
        replace(job.environment, load_1min=load),
        where or scheduling(),
        result.findings,
    )
    row = results.row(record)
    row |= summary(row)
    parquet.write(row, plan.study_folder / folder)
    return row


def describe_end(row: Row) -> str:
    """The verdict, or else the status, of an attempt and its duration: `faster, 12 s`."""
    return f"{row['verdict'] or row['status']}, {row['duration_s']:.0f} s"


def new_run_id() -> str:
    """A unique name for an attempt that starts now; names sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"


def _result(job: Job, run_id: str, on_phase: OnPhase) -> Result:
    if job.refusal:
        return Result("skipped", job.refusal, Findings())
    log = job.plan.study_folder / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if job.plan.untuned and job.case.device == "cpu" and _tunes_nothing(job, log, on_phase):
        return Result("skipped", backends.UNTUNED.format(other=job.plan.untuned), Findings())
    outcome = _outcome(job, run_id, log, on_phase)
    result: Result | None = outcome.value
    if result is None:
        status = "failed" if outcome.kind == "usage" else outcome.kind
        return Result(status, outcome.reason, Findings())
    if outcome.kind == "returned":
        return result
    # The process died in a pass after timing: the timing is kept.
    return replace(result, findings=results.add_note(result.findings, result.lost, outcome.reason))


def _tunes_nothing(job: Job, log: Path, on_phase: OnPhase) -> bool:
    """Whether compiling the case once shows that there is nothing to autotune.

    False if that fails, so that the case is measured.
    """
    with isolation.compiler_caches("cold") as variables:
        outcome = isolation.call(
            "modescope.bench.case.tuning_trial:nothing_to_tune",
            job.case,
            job.plan,
            timeout_s=job.plan.timeout_s,
            log=log,
            variables=variables,
            on_phase=on_phase,
        )
    return outcome.value is True


def _outcome(job: Job, run_id: str, log: Path, on_phase: OnPhase) -> ChildOutcome:
    """Measures the case in a process of its own.

    With compile_cache=warm, a process whose first call had to fill the compiler's cache ends after
    it, and a second process measures with the filled cache. Some code is never cached; the second
    process compiles it again, and `compiler_cache_misses` counts it.
    """
    with isolation.compiler_caches(job.plan.compile_cache) as variables:
        run = partial(
            isolation.call,
            "modescope.bench.case.runner:run",
            timeout_s=job.plan.timeout_s,
            log=log,
            variables=variables,
            on_phase=on_phase,
        )
        if job.plan.compile_cache == "warm" and not job.plan.latency_alone:
            outcome = run(job.case, replace(job.plan, fills_cache=True), run_id)
            if getattr(outcome.value, "status", None) != results.CACHE_FILLED:
                return outcome
        return run(job.case, job.plan, run_id)
