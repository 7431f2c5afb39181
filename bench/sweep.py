"""Requests -> records on disk: validated together, then measured one after another.

Imports no torch. Nothing that a case does can end the sweep.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from time import monotonic
from typing import NoReturn

from tqdm import tqdm

from bench import isolation, store
from bench.config import Request, resolve
from bench.objections import objection
from bench.records import (
    SCHEMA_VERSION,
    Attempt,
    Case,
    Environment,
    Findings,
    Host,
    Plan,
    Record,
    Result,
    UsageError,
    work_of,
)
from bench.reuse import Earlier, Needed

PROBE_TIMEOUT_S = 300

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """A validated request: what to measure, how, where, and why not if it cannot be."""

    case: Case
    plan: Plan
    environment: Environment
    objection: str | None
    command: str

    @property
    def study_folder(self) -> Path:
        """Where the study's results lie."""
        return Path(self.plan.results_dir) / self.plan.study

    @property
    def needed(self) -> Needed:
        """What an earlier row must have to make measuring this again unnecessary."""
        return Needed(
            self.case.case_id,
            self.environment.environment_id or "",
            self.plan.compile_cache,
            self.plan.budget.rank,
        )


def prepare(requests: Sequence[Request]) -> list[Job]:
    """Validates every request; raises one UsageError that names all culprits."""
    problems: list[str] = []
    jobs: list[Job] = []
    for request in requests:
        try:
            jobs.append(_job(request))
        except UsageError as problem:
            problems.append(str(problem))
    if problems:
        raise UsageError("\n".join(dict.fromkeys(problems)))
    studies = dict.fromkeys(str(job.study_folder) for job in jobs)
    if len(studies) > 1:
        raise UsageError(f"a sweep fills one study, not {', '.join(studies)}; run it for each")
    return jobs


def _job(request: Request) -> Job:
    case, plan = resolve(request, lambda name: host(name).device)
    around = host(case.device)
    cores = around.environment.cpu_cores
    if cores and case.threads > cores:
        raise UsageError(f"threads={case.threads}: this process may use {cores} cores")
    source = _model_source(case, plan.timeout_s)
    return Job(
        case,
        plan,
        replace(around.environment, environment_id=f"{around.environment.environment_id}{source}"),
        objection(case, around.device),
        shlex.join(["python", "run.py", *request.overrides]),
    )


@cache
def host(device: str) -> Host:
    """Facts of the device and its surroundings; raises UsageError where there is no such device."""
    outcome = isolation.call("bench.environment:read", device, timeout_s=PROBE_TIMEOUT_S)
    if outcome.kind == "returned":
        found: Host = outcome.value
        return found
    raise UsageError(outcome.reason or f"device={device} cannot be used")


_sources: dict[tuple[object, ...], str] = {}


def _model_source(case: Case, timeout_s: float) -> str:
    """Hash of a custom model's source, after building it once; "" for the built-in models.

    Only a mistake of the user's raises UsageError. A model that crashes or hangs while it is built
    is left to its own run, which records that.
    """
    if not case.model.name.startswith("custom:"):
        return ""
    key = (case.model, case.shape_json)
    if key not in _sources:
        outcome = isolation.call(
            "bench.environment:try_model", case.model, case.shape, timeout_s=timeout_s
        )
        if outcome.kind == "usage":
            raise UsageError(outcome.reason or "the model cannot be built")
        _sources[key] = f"-{outcome.value}" if outcome.kind == "returned" else "-unknown"
    return _sources[key]


def measure(job: Job, progress: Progress) -> str:
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
        result = _in_child(job, run_id, progress)
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
            seed=plan.seed,
            replicate=0,
            status=result.status,
            reason=result.reason,
            duration_s=monotonic() - begin,
            command=job.command,
        ),
        work_of(job.case, plan),
        replace(job.environment, load_1min=load),
        result.findings,
    )
    store.write(record, job.study_folder / "runs")
    return run_id


def _in_child(job: Job, run_id: str, progress: Progress) -> Result:
    logs = job.study_folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with _compiler_cache(job.plan.compile_cache) as variables:
        outcome = isolation.call(
            "bench.runner:run",
            job.case,
            job.plan,
            timeout_s=job.plan.timeout_s,
            log=logs / f"{run_id}.log",
            variables=variables,
            on_progress=progress,
        )
    if outcome.kind == "returned":
        result: Result = outcome.value
        return result
    status = "failed" if outcome.kind == "usage" else outcome.kind
    return Result(status, outcome.reason, Findings())


@contextmanager
def _compiler_cache(temperature: str) -> Iterator[dict[str, str]]:
    """Variables that give a cold run empty compiler caches of its own, gone afterwards."""
    if temperature == "warm":
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="modescope-")
    try:
        yield {
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def heading(jobs: Sequence[Job]) -> str:
    """What will be measured, where, and where the results go: one line."""
    around = jobs[0].environment
    what = f"{len(jobs)} cases" if len(jobs) > 1 else label(jobs[0])
    devices = " and ".join(dict.fromkeys(str(job.environment.device_name) for job in jobs))
    threads = " or ".join(dict.fromkeys(str(job.case.threads) for job in jobs))
    where = f"{devices}, {threads} of {around.cpu_cores} cores, torch {around.torch_version}"
    return f"{what} on {where} → {jobs[0].study_folder}"


def label(job: Job) -> str:
    """The case in a few words."""
    case = job.case
    sizes = " ".join(f"{key}={value}" for key, value in case.shape.items())
    words = (case.model.name, sizes, case.variant.mode.name, case.variant.dtype)
    return " ".join(word for word in words if word)


def run(jobs: Sequence[Job], resume: bool) -> Iterator[str]:
    """Measures the jobs in order, each to its end; yields the run ids that speak for them."""
    earlier = Earlier(jobs[0].study_folder / "runs")
    reused = [earlier.run_id(job.needed) if resume else None for job in jobs]
    missing = reused.count(None)
    if missing < len(jobs):
        found = len(jobs) - missing
        print(f"reusing {found} of {len(jobs)} cases measured before (resume=false: anew)")
    with tqdm(total=missing, unit="case", disable=None, leave=False) as bar:
        for job, run_id in zip(jobs, reused, strict=True):
            if run_id is not None:
                yield run_id
                continue
            yield measure(job, partial(_show_phase, bar, label(job)))
            bar.update()


def _show_phase(bar: tqdm[NoReturn], what: str, phase: str) -> None:
    bar.set_description(f"{what}: {phase}")
