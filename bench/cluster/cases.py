"""The tasks of a real sweep: cases, each measured in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from modescope.bench.cluster import locks
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Sweep
from modescope.bench.cluster.members import Member
from modescope.bench.cluster.sentinel import measure_sentinel
from modescope.bench.records import leftovers, parquet, results, rows
from modescope.bench.records.environment import Environment
from modescope.bench.records.errors import UsageError
from modescope.bench.records.scheduling import Scheduling, scheduling
from modescope.bench.resolve import Request
from modescope.bench.settings import SCHEMAS, ModeSettings, Settings
from modescope.bench.summary import summary
from modescope.bench.sweep import resume
from modescope.bench.sweep.attempt import Place, attempt, new_run_id, record_at_start
from modescope.bench.sweep.prepare import Job, prepare_each

NAME = "modescope.bench.cluster.cases:Cases"


def as_json(request: Request) -> dict[str, Any]:
    """A request, without the options of its engine, which change nothing that is measured."""
    return asdict(replace(request, settings=replace(request.settings, cluster={})))


def from_json(content: dict[str, Any]) -> Request:
    """What `as_json` made."""
    sections = {key: SCHEMAS[key](**content["settings"][key]) for key in SCHEMAS if key}
    settings = Settings(**{**content["settings"], **sections})
    baseline = content["baseline"] and ModeSettings(**content["baseline"])
    return Request(settings, baseline, tuple(content["overrides"]), content["sweep"])


class Cases:
    """See `bench.cluster.work.Work`."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._study = Path(sweep.study_folder)
        self._jobs: dict[str, Job] = {}
        self._scheduling = Scheduling()
        self.problems: dict[str, str] = {}
        self.reusable: dict[str, str] = {}
        self.again: dict[str, str] = {}

    def prepare(self, member: Member) -> None:
        """See `Work`."""
        self._scheduling = scheduling(
            member.scheduler, job=member.job, queue_wait_s=member.queue_wait_s, worker=member.name
        )
        requests = [from_json(each) for each in self._sweep.requests]
        parts = prepare_each(requests)
        for (number, replicate), task in zip(self._sweep.tasks, self._sweep.names, strict=True):
            part = parts[number]
            if isinstance(part, UsageError):
                self.problems[task] = str(part)
            else:
                self._jobs[task] = part[replicate]
        if not self._jobs:
            return
        results_dir = next(iter(self._jobs.values())).plan.results_dir
        leftovers.clear(self._study / rows.ROWS, self._study / "traces", Path(results_dir))
        self._find_earlier(requests)

    def calibrate(self) -> bool:
        """See `Work`."""
        request = from_json(self._sweep.requests[0])
        row = measure_sentinel(request, self._scheduling)
        return row is not None and row["status"] == "ok"

    def _find_earlier(self, requests: Sequence[Request]) -> None:
        earlier = resume.find_earlier(list(self._jobs.values()), requests[0])
        for task, reuse in zip(self._jobs, earlier.reuses, strict=True):
            if reuse.run_id:
                self.reusable[task] = reuse.run_id
            elif reuse.why_not:
                self.again[task] = reuse.why_not

    def locks(self, task: str) -> locks.Locks:
        """See `Work`."""
        device = self._jobs[task].case.device
        if device == "cpu":
            return locks.ON_CPU
        uuid = self._jobs[task].environment.gpu_uuid
        return locks.on_gpu(uuid or locks.visible_gpu() or device)

    def new_run_id(self) -> str:
        """See `Work`."""
        return new_run_id()

    def row(self, task: str, run_id: str, position: int) -> dict[str, Any]:
        """See `Work`."""
        job = self._jobs[task]
        place = self._place(position)
        return asdict(record_at_start(job, run_id, place, self._scheduling))

    def measure(self, task: str, run_id: str, position: int) -> str:
        """See `Work`."""
        job = self._jobs[task]
        print(f"{run_id}  {job.label}", flush=True)
        place = self._place(position)
        row = attempt(job, place=place, where=self._scheduling, run_id=run_id)
        return str(row["status"])

    def exists(self, run_id: str) -> bool:
        """See `Work`."""
        return rows.exists(self._study, run_id)

    def write_lost(self, claim: Claim, reason: str) -> None:
        """See `Work`."""
        if self.exists(claim.run_id):
            return
        record = results.Record(
            results.Attempt(**{**claim.row["attempt"], "reason": reason}),
            results.Work(**claim.row["work"]),
            Environment(**claim.row["environment"]),
            Scheduling(**claim.row["scheduling"]),
            results.Findings(),
        )
        with suppress(FileExistsError):
            parquet.write(record, self._study / rows.ROWS, summary(results.row(record)))

    def _place(self, position: int) -> Place:
        return Place(self._sweep.order, position)
