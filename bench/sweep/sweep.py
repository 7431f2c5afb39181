"""Measures the cases of a command on this machine, or hands them to the engine of `cluster=NAME`.

On this machine cases are measured one after another, each in its own process.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from modescope.bench.mistakes import usage_error
from modescope.bench.records import files
from modescope.bench.records.caches import CACHES
from modescope.bench.records.environment import describe_machine
from modescope.bench.records.errors import UsageError
from modescope.bench.records.plans import Budget
from modescope.bench.records.results import StoredRow
from modescope.bench.records.rows import CONFIRMATIONS, ROWS, join
from modescope.bench.resolve import Request
from modescope.bench.settings import preset
from modescope.bench.sweep import others
from modescope.bench.sweep.attempt import (
    ALONE,
    Place,
    attempt,
    describe_end,
    remove_abandoned_files,
)
from modescope.bench.sweep.fingerprint import untested_warning
from modescope.bench.sweep.prepare import Job, leave_out_lacking, prepare
from modescope.bench.sweep.progress_bar import Waiting, advance, progress_bar, say
from modescope.bench.sweep.resume import find_earlier


@dataclass(frozen=True)
class Submission:
    """The measurement of one command's cases, which may be under way.

    Iterating `finished` measures the cases, or waits for their jobs, and shows progress on stderr.
    Ctrl-C during the iteration raises KeyboardInterrupt, and ends what was started unless
    `detaches` is set. Rows on disk stay, so the same command resumes.
    """

    study_folder: Path
    runs: int  # how many run ids `finished` yields
    finished: Iterator[str]  # run ids, each once its row is on disk, in any order
    detaches: bool = False  # whether measuring goes on elsewhere after an interruption
    confirm: Callable[[Mapping[str, bool]], None] | None = None
    """Measures the cases of these runs once more; true: with the steps from eager to the mode."""
    explains: bool = False  # whether `confirm` is to explain the best compiled mode of each work
    in_hand: Mapping[str, StoredRow] = field(
        default_factory=dict
    )  # a single case's row, by its run id


class Incomplete(Exception):
    """Raised while iterating `Submission.finished` if some cases cannot be measured now."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused  # whether nothing was measured, because of a mistake of the user


ENGINES = {
    "none": "modescope.bench.sweep.sweep:submit_here",
    "gpus": "modescope.bench.cluster.gpus:submit",
    "slurm": "modescope.bench.cluster.slurm:submit",
    "ray": "modescope.bench.cluster.ray:submit",
}
"""Maps the setting cluster.engine to the function that measures with that engine. The function is
imported only if its engine is chosen.

The function takes the requests of a command. It raises UsageError for requests that it cannot
measure, and prints what will be measured where. Then it returns a `Submission`, or None with
dry_run.
"""

PACKAGES = {"slurm": "submitit", "ray": "ray"}
"""Maps an engine to the package that it needs and that modescope does not require."""


def submit(requests: Sequence[Request]) -> Submission | None:
    """Gives the requests of one command to the engine that cluster.engine names.

    Returns None with dry_run. Raises UsageError if the engine is unknown or not installed, or if it
    cannot measure the requests.
    """
    name = requests[0].settings.cluster["engine"]
    if name not in ENGINES:
        raise usage_error(f"cluster.engine={name}", "no such engine", ENGINES)
    if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
        raise UsageError(f"cluster={name} needs {PACKAGES[name]}; pip install {PACKAGES[name]}")
    engine: Callable[[Sequence[Request]], Submission | None] = pkgutil.resolve_name(ENGINES[name])
    return engine(requests)


def submit_here(requests: Sequence[Request]) -> Submission | None:
    """Measures the cases of `requests` on this machine: the engine `none` in ENGINES."""
    jobs, left_out = prepare(requests), None
    if requests[0].sweep:
        jobs, left_out = leave_out_lacking(jobs)
    first = jobs[0]
    if not requests[0].sweep and first.refusal:
        raise UsageError(f"mode={first.case.variant.mode.name}: {first.refusal}")
    if warning := untested_warning(first.environment.torch_version):
        print(warning)  # to stdout, so that a saved table includes it
    what = f"{len(jobs)} cases" if len(jobs) > 1 else first.label
    machines = [
        describe_machine(job.environment, job.environment.device_name, job.case.threads)
        for job in jobs
    ]
    where = " and ".join(dict.fromkeys(machines))
    torch = f"torch {first.environment.torch_version}"
    print(f"{what} on {where}, {torch} → {first.plan.study_folder}")
    if left_out:
        print(left_out)
    if requests[0].settings.dry_run:
        print("\n".join(["nothing was measured; the cases:", *(job.command for job in jobs)]))
        return None
    by_run, in_hand = dict[str, Job](), dict[str, StoredRow]()
    return Submission(
        first.plan.study_folder,
        len(jobs),
        _measure(jobs, requests[0], by_run, in_hand),
        confirm=partial(confirm, jobs=by_run) if requests[0].sweep else None,
        explains=first.plan.explain == "best",
        in_hand=in_hand,
    )


def _measure(
    jobs: list[Job], request: Request, by_run: dict[str, Job], in_hand: dict[str, StoredRow]
) -> Iterator[str]:
    """Measures each job that has no reusable row; yields the run ids of reused and new rows.

    `by_run` gets the job of a run id before the run id is yielded, and `in_hand` the row that was
    measured, unless the rows of a sweep would fill the memory. order=random shuffles the jobs
    with the first job's seed, so that a drift of the machine does not look like a difference
    between modes; order=given keeps their order.
    """
    plan, order = jobs[0].plan, request.settings.order
    remove_abandoned_files(plan)
    if order == "random":
        random.Random(plan.seed).shuffle(jobs)
    reuses = find_earlier(jobs, request)
    if reused := sum(reuse.run_id is not None for reuse in reuses):
        print(f"reusing {reused} of {len(reuses)} cases; resume=false measures them again")
    for why, count in Counter(reuse.why_not for reuse in reuses if reuse.why_not).most_common():
        print(f"measuring {count} again: {why}")
    for job, reuse in zip(jobs, reuses, strict=True):
        if reuse.run_id:
            by_run[reuse.run_id] = job
            yield reuse.run_id
    missing = [n for n, reuse in enumerate(reuses) if reuse.run_id is None]
    if request.sweep and missing and (busy := others.warning()):
        say(busy)
    with progress_bar(len(missing), "case") as bar:
        for number, position in enumerate(missing, 1):
            job = jobs[position]
            stands = Place(order, position) if len(jobs) > 1 else ALONE
            waiting = Waiting(bar, job.label)
            row = attempt(job, waiting.begin, stands, on_wait=waiting.wait)
            by_run[row["run_id"]] = job
            if not request.sweep:
                in_hand[row["run_id"]] = row
            yield row["run_id"]
            advance(bar, number, f"{job.label}: {describe_end(row)}")
    if request.sweep and missing:
        join_rows(plan.study_folder / ROWS)


def join_rows(folder: Path) -> None:
    """Joins the files of rows in `folder` into one file; if that fails, prints a warning."""
    try:
        join(folder)
    except OSError as error:
        print(f"warning: the rows stay in single files: {error}", file=sys.stderr)


def confirm(explained: Mapping[str, bool], jobs: Mapping[str, Job]) -> None:
    """Measures the cases of the runs in `explained` once more, each in a fresh process.

    `jobs` maps run ids to jobs; a run without a job is left out. Only the paired rounds of case and
    baseline are timed, and where `explained` is true the steps from eager to the mode. The new rows
    go to `<study>/confirmations/`, which no table, resume, comparison or compaction reads;
    `analysis.load` adds their speedups and steps to the rows that they confirm.

    A confidence interval describes one process, and the speedup in another process may lie outside
    it: in five studies of the same chain of operators, one found compile 1.13 times as fast as
    eager, and four found 0.9.
    """
    todo = {run_id: jobs[run_id] for run_id in explained if run_id in jobs}
    if not todo:
        return
    study_folder = next(iter(todo.values())).plan.study_folder
    files.remove_abandoned(study_folder / CONFIRMATIONS)
    print("measuring once more, in fresh processes, what would be recommended", flush=True)
    with progress_bar(len(todo), "process") as bar:
        for number, (run_id, job) in enumerate(todo.items(), 1):
            label, cache = f"{job.label} once more", job.plan.compile_cache
            plan = replace(
                job.plan,  # with its weights and inputs, and another order of rounds
                budget=Budget(**preset("budget", "budget", "quick")),
                replicate=job.plan.replicate + 1,
                compile_cache=cache if CACHES[cache].is_saved else "warm",
                starts=0,
                profile=False,
                memory=False,
                explain="true" if explained[run_id] else "false",
                latency_alone=True,
            )
            waiting = Waiting(bar, label)
            row = attempt(
                replace(job, plan=plan),
                waiting.begin,
                Place(confirms=run_id),
                folder=CONFIRMATIONS,
                on_wait=waiting.wait,
            )
            advance(bar, number, f"{label}: {describe_end(row)}")
