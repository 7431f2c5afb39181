"""Measures the cases of a command on this machine, or hands them to the engine of `cluster=NAME`.

On this machine each case is measured after the other, each in its own process.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from modescope.bench.records import files, joining
from modescope.bench.records.environment import place
from modescope.bench.records.errors import UsageError
from modescope.bench.records.paths import ROOT
from modescope.bench.records.rows import ROWS
from modescope.bench.resolve import Request
from modescope.bench.settings import usage_error
from modescope.bench.sweep.attempt import ALONE, Place, attempt, describe_end
from modescope.bench.sweep.confirming import confirm
from modescope.bench.sweep.fingerprint import untested_warning
from modescope.bench.sweep.prepare import Job, prepare
from modescope.bench.sweep.progress_bar import advance, describe, progress_bar
from modescope.bench.sweep.resume import Reuse, find_earlier

JOINED_EVERY = 1000
"""Cases after which a sweep joins the rows that it wrote; it does so at its end, too."""


@dataclass(frozen=True)
class Submission:
    """The cases of one command, as they are being measured.

    Iterating `finished` shows progress on stderr. A KeyboardInterrupt ends what was started and is
    raised again; written rows stay, so that the same command resumes.
    """

    study_folder: Path
    runs: int  # how many run ids `finished` yields
    finished: Iterator[str]  # run ids, each once its row is on disk, in any order
    detaches: bool = False  # cases are measured on after an interruption
    confirm: Callable[[Sequence[str]], None] | None = None  # measures these runs' cases once more


class Incomplete(Exception):
    """Raised by `Submission.finished` where cases are left that cannot be measured now."""

    def __init__(self, reason: str, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused  # nothing was measured, by a mistake of the user


ENGINES = {
    "none": "modescope.bench.sweep.sweep:submit_here",
    "gpus": "modescope.bench.cluster.gpus:submit",
    "slurm": "modescope.bench.cluster.slurm:submit",
    "ray": "modescope.bench.cluster.ray:submit",
}
"""Functions by the value of cluster.engine, each imported only where it measures.

One takes the requests of a command, which can be pickled. It raises UsageError for requests that it
cannot measure, prints what will be measured where, and returns a `Submission`; None with dry_run,
when that was all.
"""

PACKAGES = {"slurm": "submitit", "ray": "ray"}
"""What engines import beside modescope's requirements; the engine's name is that of the extra."""


def submit(requests: Sequence[Request]) -> Submission | None:
    """Gives the requests of one command to their engine."""
    name = requests[0].settings.cluster["engine"]
    if name not in ENGINES:
        raise usage_error(f"cluster.engine={name}", "no such engine", ENGINES)
    if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
        ours = "-e '.[{}]'" if (ROOT / "pyproject.toml").is_file() else "'modescope[{}]'"
        install = f"pip install {ours.format(name)}"
        raise UsageError(f"cluster={name}: {PACKAGES[name]} is not installed; {install}")
    engine: Callable[[Sequence[Request]], Submission | None] = pkgutil.resolve_name(ENGINES[name])
    return engine(requests)


def submit_here(requests: Sequence[Request]) -> Submission | None:
    """Measures all cases without a reusable row on this machine."""
    jobs = prepare(requests)
    first = jobs[0]
    if not requests[0].sweep and first.refusal:
        raise UsageError(f"mode={first.case.variant.mode.name}: {first.refusal}")
    if warning := untested_warning(first.environment.torch_version):
        print(warning)  # to stdout, so that a saved table includes it
    print(_heading(jobs))
    if requests[0].settings.dry_run:
        print("\n".join(["nothing was measured; the cases:", *(job.command for job in jobs)]))
        return None
    by_run: dict[str, Job] = {}
    return Submission(
        first.plan.study_folder,
        len(jobs),
        _measure(jobs, requests[0], by_run),
        confirm=partial(confirm, jobs=by_run) if requests[0].sweep else None,
    )


def _heading(jobs: Sequence[Job]) -> str:
    """One line: what will be measured, on which machine, and the folder of the results."""
    what = f"{len(jobs)} cases" if len(jobs) > 1 else jobs[0].label
    machines = [
        place(job.environment, job.environment.device_name, job.case.threads) for job in jobs
    ]
    where = " and ".join(dict.fromkeys(machines))
    torch = f"torch {jobs[0].environment.torch_version}"
    return f"{what} on {where}, {torch} → {jobs[0].plan.study_folder}"


def _measure(jobs: list[Job], request: Request, by_run: dict[str, Job]) -> Iterator[str]:
    """Measures each job without a reusable row; yields the run ids of reused and new rows.

    Each is added to `by_run` before.

    order=random shuffles the jobs by the first one's seed, so that a drift of the machine does not
    become a difference between modes; order=given keeps their order.
    """
    plan, order = jobs[0].plan, request.settings.order
    folder = plan.study_folder / ROWS
    files.remove_abandoned(folder, plan.study_folder / "traces", Path(plan.results_dir))
    if order == "random":
        random.Random(plan.seed).shuffle(jobs)
    reuses = find_earlier(jobs, request)
    for line in _reasons(reuses):
        print(line)
    for job, reuse in zip(jobs, reuses, strict=True):
        if reuse.run_id:
            by_run[reuse.run_id] = job
            yield reuse.run_id
    missing = [n for n, reuse in enumerate(reuses) if reuse.run_id is None]
    with progress_bar(len(missing), "case") as bar:
        for number, position in enumerate(missing, 1):
            job = jobs[position]
            place = Place(order, position) if len(jobs) > 1 else ALONE
            row = attempt(job, describe(bar, job.label), place)
            by_run[row["run_id"]] = job
            yield row["run_id"]
            advance(bar, number, f"{job.label}: {describe_end(row)}")
            if number % JOINED_EVERY == 0:
                join_rows(folder)
    if request.sweep and missing:
        join_rows(folder)


def join_rows(folder: Path) -> None:
    """Joins the rows in a study's `folder` of them; on a full disk they stay as they are."""
    try:
        joining.join(folder)
    except OSError as error:
        print(f"warning: the rows stay in single files: {error}", file=sys.stderr)


def _reasons(reuses: Sequence[Reuse]) -> Iterator[str]:
    """Lines about reused rows, and reasons for measuring cases again."""
    reused = sum(reuse.run_id is not None for reuse in reuses)
    if reused:
        yield f"reusing {reused} of {len(reuses)} cases; resume=false measures them again"
    for why, count in Counter(each.why_not for each in reuses if each.why_not).most_common():
        yield f"measuring {count} again: {why}"
