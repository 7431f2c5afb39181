"""Measures a case once, in a process of its own, and writes the result as a row."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic

from modescope.bench.modes import backends
from modescope.bench.modes.backends import Backend
from modescope.bench.records import files, parquet, results, rows
from modescope.bench.records.caches import CACHES, SAVED
from modescope.bench.records.columns.starting import Starts
from modescope.bench.records.environment import Scheduling, scheduling
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings, Record, Result, StoredRow
from modescope.bench.summary import summary
from modescope.bench.sweep import isolation, starts
from modescope.bench.sweep.isolation import STATUS, ChildOutcome, Ending, Task
from modescope.bench.sweep.prepare import Job

OnPhase = Callable[[str], None]
"""A function that is called with the name of each phase of a measurement as it begins, such as
`first call`."""

OnWait = Callable[[], float]
"""A function that is called while a measurement is awaited; returns after how many seconds to call
it again."""


@dataclass(frozen=True)
class Place:
    """Columns that say when in a sweep, or in a run of `bench.versus`, a case was measured.

    `bench.versus` compares an old and a new side in blocks; the processes of a block take turns. A
    column that does not apply is None.
    """

    case_order: str | None = None  # random | given
    position: int | None = None  # in that order, from 0
    versus_block: int | None = None  # when its block began, in ms since 1970
    versus_side: str | None = None  # old | new
    versus_state: str | None = None  # what is measured on that side
    confirms: str | None = None  # id of the run whose case is measured once more


ALONE = Place()
"""The columns of a case that is not measured in a sweep: all None."""


def remove_abandoned_files(plan: Plan) -> None:
    """Removes half-written files and temporary caches that killed processes have left."""
    study = plan.study_folder
    files.remove_abandoned(study / rows.ROWS, study / "traces", Path(plan.results_dir))


def attempt(
    job: Job,
    on_phase: OnPhase = lambda phase: None,
    place: Place = ALONE,
    where: Scheduling | None = None,
    folder: str = rows.ROWS,
    on_wait: OnWait = lambda: math.inf,
) -> StoredRow:
    """Measures `job` in a process of its own; writes and returns its row, even if it failed.

    `on_phase` and `on_wait` are called while it is measured. `place` says when in a sweep the
    job is measured; by default it is in none. `where` names the scheduler, its job and the node;
    None reads them from environment variables. The row is written to the subfolder `folder` of the
    study.
    """
    begin, started_at, load = monotonic(), datetime.now(UTC).isoformat(), os.getloadavg()[0]
    run_id, plan = new_run_id(), job.plan
    result = _result(job, run_id, on_phase, on_wait)
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
            explain=plan.explain,
            max_error=plan.max_error,
        ),
        results.work_of(job.case, plan),
        replace(job.environment, load_1min=load),
        where or scheduling(),
        result.findings,
    )
    stored = results.row(record)
    row = stored | summary(stored)
    parquet.write(row, plan.study_folder / folder)
    return row


def describe_end(row: StoredRow) -> str:
    """Returns the verdict (else the status) of a row and its duration: `faster, 12 s`."""
    return f"{row['verdict'] or row['status']}, {row['duration_s']:.0f} s"


def new_run_id() -> str:
    """Returns a unique id for a run that starts now; ids sort by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"


def _result(job: Job, run_id: str, on_phase: OnPhase, on_wait: OnWait) -> Result:
    if job.refusal:
        return Result(Status.SKIPPED, job.refusal, Findings())
    log = job.plan.study_folder / "logs" / f"{run_id}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    outcome = _outcome(job, run_id, log, on_phase, on_wait)
    result = outcome.value
    if result is None:
        return Result(STATUS[outcome.kind], outcome.reason, Findings())
    if outcome.kind == Ending.RETURNED:
        return result
    # The process died in a pass after timing: the timing is kept.
    return replace(result, findings=results.add_note(result.findings, result.lost, outcome.reason))


def _outcome(
    job: Job, run_id: str, log: Path, on_phase: OnPhase, on_wait: OnWait
) -> ChildOutcome[Result]:
    """Measures the case in a process of its own; returns how that ended.

    Before it, the processes run that make the mode's code ahead of time, if it has such, and those
    that prepare the compiler's caches, unless `plan.latency_alone` (only paired rounds are timed).
    One of them that has nothing to prepare measures the case. With
    compile_cache=warm, code that is never cached is compiled again in the process that measures,
    and `compiler_cache_misses` counts it. Of a case that counts starts, these are new processes.
    """
    case, plan = job.case, job.plan
    cache, backend = CACHES[plan.compile_cache], backends.find(case.variant.mode)
    call = partial(
        isolation.call, timeout_s=plan.timeout_s, log=log, on_phase=on_phase, on_wait=on_wait
    )
    run = Task("modescope.bench.case.runner:run", Result)
    if plan.starts or cache.is_saved:
        with starts.opened(case, plan, log) as rung:
            try:
                found = starts.measure(rung, case, plan, on_phase)
            except Ended as ended:
                return ChildOutcome(Ending.RETURNED, ended.result)
            with rung.later() as variables:
                outcome = call(run, case, plan, run_id, variables=variables)
        return replace(outcome, value=outcome.value and _add(outcome.value, found, plan))
    before = (*backend.before, *(() if plan.latency_alone else cache.before))
    with cache.variables() as variables, _shared(backend) as shared:
        for function in before:
            outcome = call(Task(function, Result), case, plan, run_id, variables=variables | shared)
            if outcome.value is None or outcome.value.status != Status.CACHE_FILLED:
                return outcome
        return call(run, case, plan, run_id, variables=variables | shared)


def _add(result: Result, found: Starts, plan: Plan) -> Result:
    findings = replace(result.findings, starts=found)
    unused = starts.why_unused(plan.compile_cache, found)
    if unused and result.status == Status.OK:
        findings = replace(findings, checks=replace(findings.checks, in_effect=False))
        findings = results.add_note(findings, ["in_effect_note"], unused)
    return replace(result, findings=findings)


@contextmanager
def _shared(backend: Backend) -> Iterator[dict[str, str]]:
    """Yields the variable SAVED with a folder that lasts for the block, if `backend` needs one."""
    if not backend.before:
        yield {}
        return
    with files.temporary_folder() as folder:
        yield {SAVED: str(folder)}
