"""The executor for this machine: one case after another, each in its own process."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from modescope.bench.records import joining, leftovers
from modescope.bench.records.environment import place
from modescope.bench.records.errors import UsageError
from modescope.bench.records.rows import ROWS
from modescope.bench.resolve import Request
from modescope.bench.sweep import jobs
from modescope.bench.sweep.confirming import confirm
from modescope.bench.sweep.executors import Submission
from modescope.bench.sweep.host import releases
from modescope.bench.sweep.jobs import Job
from modescope.bench.sweep.progress_bar import advance, named, progress_bar
from modescope.bench.sweep.record_attempt import ALONE, Place, attempted, in_short
from modescope.bench.sweep.resume import Reuse, found

JOINED_EVERY = 1000
"""Cases after which a sweep joins the rows that it wrote; it does so at its end, too."""


def submit(requests: Sequence[Request]) -> Submission | None:
    """Measures all cases without a reusable row; see `bench.sweep.executors.Executor`."""
    todo = jobs.prepare(requests)
    first = todo[0]
    if not requests[0].sweep and first.refusal:
        raise UsageError(f"mode={first.case.variant.mode.name}: {first.refusal}")
    if warning := releases.warning(first.environment.torch_version):
        print(warning)  # to stdout, so that a saved table includes it
    print(_heading(todo))
    if requests[0].settings.dry_run:
        print("\n".join(["nothing was measured; the cases:", *(job.command for job in todo)]))
        return None
    by_run: dict[str, Job] = {}
    return Submission(
        first.plan.study_folder,
        len(todo),
        _measured(todo, requests[0], by_run),
        confirm=partial(confirm, jobs=by_run) if requests[0].sweep else None,
    )


def _heading(todo: Sequence[Job]) -> str:
    """One line: what will be measured, on which machine, and the folder of the results."""
    what = f"{len(todo)} cases" if len(todo) > 1 else todo[0].label
    machines = [
        place(job.environment, job.environment.device_name, job.case.threads) for job in todo
    ]
    where = " and ".join(dict.fromkeys(machines))
    torch = f"torch {todo[0].environment.torch_version}"
    return f"{what} on {where}, {torch} → {todo[0].plan.study_folder}"


def _measured(todo: list[Job], request: Request, by_run: dict[str, Job]) -> Iterator[str]:
    """Measures each job without a reusable row; yields the run ids of reused and new rows.

    Each is added to `by_run` before.

    order=random shuffles the jobs by the first one's seed, so that a drift of the machine does not
    become a difference between modes; order=given keeps their order.
    """
    plan, order = todo[0].plan, request.settings.order
    folder = plan.study_folder / ROWS
    leftovers.clear(folder, plan.study_folder / "traces", Path(plan.results_dir))
    if order == "random":
        random.Random(plan.seed).shuffle(todo)
    earlier = found(todo, request)
    for line in _reasons(earlier.reuses):
        print(line)
    for job, reuse in zip(todo, earlier.reuses, strict=True):
        if reuse.run_id:
            by_run[reuse.run_id] = job
            yield reuse.run_id
    missing = [n for n, reuse in enumerate(earlier.reuses) if reuse.run_id is None]
    with progress_bar(len(missing), "case") as bar:
        for number, position in enumerate(missing, 1):
            job = todo[position]
            place = Place(order, position) if len(todo) > 1 else ALONE
            record = attempted(job, named(bar, job.label), place)
            by_run[record.attempt.run_id] = job
            yield record.attempt.run_id
            advance(bar, number, f"{job.label}: {in_short(record)}")
            if number % JOINED_EVERY == 0:
                _join(folder)
    if request.sweep and missing:
        _join(folder)


def _join(folder: Path) -> None:
    """Joins the study's rows; a disk too full for that keeps them as they are."""
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
