"""Jobs -> records on disk, one after another. Nothing that a case does can end the sweep."""

from __future__ import annotations

import os
import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import NoReturn

from tqdm import tqdm

from bench import compiler_cache, isolation, leftovers, store
from bench.jobs import Job
from bench.records import SCHEMA_VERSION, Attempt, Findings, Record, Result, noted, place, work_of
from bench.reuse import Earlier, Found

OnPhase = Callable[[str], None]


@dataclass(frozen=True)
class Turn:
    """A job's place in a sweep; None and None for a single case."""

    order: str | None = None
    position: int | None = None


def heading(jobs: Sequence[Job]) -> str:
    """What will be measured, where, and where the results go: one line."""
    what = f"{len(jobs)} cases" if len(jobs) > 1 else jobs[0].label
    machines = [
        place(job.environment, job.environment.device_name, job.case.threads) for job in jobs
    ]
    where = " and ".join(dict.fromkeys(machines))
    torch = f"torch {jobs[0].environment.torch_version}"
    return f"{what} on {where}, {torch} → {jobs[0].study_folder}"


def run(jobs: Sequence[Job], order: str, resume: bool, retry: bool) -> Iterator[str]:
    """Measures each job that no earlier row stands in for; yields the run ids that count.

    `order` random shuffles the jobs by the first one's seed, so that a drift of the machine does
    not become a difference between modes; given keeps them as they are.
    """
    runs = jobs[0].study_folder / "runs"
    leftovers.clear(runs, jobs[0].study_folder / "traces", Path(jobs[0].plan.results_dir))
    jobs = list(jobs)
    if order == "random":
        random.Random(jobs[0].plan.seed).shuffle(jobs)
    earlier = Earlier(runs)
    found = [earlier.find(job.needed(retry)) if resume else Found(None) for job in jobs]
    for line in _reasons(found, earlier.outdated if resume else 0):
        print(line)
    yield from (each.run_id for each in found if each.run_id)
    missing = sum(each.run_id is None for each in found)
    with tqdm(total=missing, unit="case", disable=None, leave=False) as bar:
        for position, (job, each) in enumerate(zip(jobs, found, strict=True)):
            if each.run_id is None:
                turn = Turn(order, position) if len(jobs) > 1 else Turn()
                yield measure(job, turn, partial(_show_phase, bar, job.label))
                bar.update()


def _reasons(found: Sequence[Found], outdated: int) -> Iterator[str]:
    """What is reused, and why what was measured before is measured again."""
    reused = sum(each.run_id is not None for each in found)
    if reused:
        yield f"reusing {reused} of {len(found)} cases measured before (resume=false: anew)"
    for why, count in Counter(each.why_not for each in found if each.why_not).most_common():
        yield f"measuring {count} again: {why}"
    if outdated:
        rows = "row is" if outdated == 1 else "rows are"
        yield f"{outdated} earlier {rows} of an older modescope and not reused"


def _show_phase(bar: tqdm[NoReturn], what: str, phase: str) -> None:
    bar.set_description(f"{what}: {phase}")


def measure(job: Job, turn: Turn, on_phase: OnPhase) -> str:
    """Runs one job in a process of its own and writes its record, whatever became of it.

    Returns the run id.
    """
    started = datetime.now(UTC)
    begin = monotonic()
    run_id = f"{started:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(3)}"
    load = os.getloadavg()[0]
    if job.objection:
        result = Result("skipped", job.objection, Findings())
    else:
        result = _in_child(job, run_id, on_phase)
    plan = job.plan
    record = Record(
        Attempt(
            schema_version=SCHEMA_VERSION,
            run_id=run_id,
            case_id=job.case.case_id,
            study=plan.study,
            started_at=started.isoformat(),
            budget=plan.budget.name,
            budget_rank=plan.budget.rank,
            budget_settings=plan.budget.settings,
            seed=plan.seed,
            replicate=plan.replicate,
            status=result.status,
            reason=result.reason,
            duration_s=monotonic() - begin,
            command=job.command,
            order=turn.order,
            position=turn.position,
            profile=plan.profile,
            memory=plan.memory,
            max_error=plan.max_error,
        ),
        work_of(job.case, plan),
        replace(job.environment, load_1min=load),
        result.findings,
    )
    store.write(record, job.study_folder / "runs")
    return run_id


def _in_child(job: Job, run_id: str, on_phase: OnPhase) -> Result:
    logs = job.study_folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with compiler_cache.of(job.plan.compile_cache) as variables:
        outcome = isolation.call(
            "bench.runner:run",
            job.case,
            job.plan,
            run_id,
            timeout_s=job.plan.timeout_s,
            log=logs / f"{run_id}.log",
            variables=variables,
            on_phase=on_phase,
        )
    result: Result | None = outcome.value
    if result is not None and outcome.kind != "returned":  # timing was done, a later pass was not
        return replace(result, findings=noted(result.findings, result.lost, outcome.reason))
    if result is not None:
        return result
    status = "failed" if outcome.kind == "usage" else outcome.kind
    return Result(status, outcome.reason, Findings())
