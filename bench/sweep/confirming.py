"""Measures once more, in fresh processes, what a sweep is about to recommend.

Intervals hold within a process, and a tight one can be wrong between processes: of five studies of
one chain of operators one called compile 1.13 times as fast as eager, four 0.9. A confirming
process reads the paired latency alone. Its row lies in `<study>/confirmations/`, where no table,
resume, comparison or compaction counts it; `analysis.load` puts its speedup beside the row that it
confirms. Replicates have several processes already, and need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from modescope.bench.records import files
from modescope.bench.records.cases import Budget
from modescope.bench.records.rows import CONFIRMATIONS
from modescope.bench.settings import preset
from modescope.bench.sweep.attempt import Place, attempt, describe_end
from modescope.bench.sweep.prepare import Job
from modescope.bench.sweep.progress_bar import advance, describe, progress_bar


def confirm(run_ids: Sequence[str], jobs: Mapping[str, Job]) -> None:
    """Measures the cases of these runs once more; `jobs`: those of a sweep by run id."""
    todo = {run_id: jobs[run_id] for run_id in run_ids if run_id in jobs}
    if not todo:
        return
    plan = next(iter(todo.values())).plan
    files.remove_abandoned(plan.study_folder / CONFIRMATIONS)
    print("measuring once more, in fresh processes, what would be recommended", flush=True)
    with progress_bar(len(todo), "process") as bar:
        for number, (run_id, job) in enumerate(todo.items(), 1):
            label = f"{job.label} once more"
            place = Place(confirms=run_id)
            row = attempt(_again(job), describe(bar, label), place, folder=CONFIRMATIONS)
            advance(bar, number, f"{label}: {describe_end(row)}")


def _again(job: Job) -> Job:
    """The job for a second process: its weights and inputs, in another order of rounds."""
    plan = replace(
        job.plan,
        budget=Budget(**preset("budget", "budget", "quick")),
        replicate=job.plan.replicate + 1,
        compile_cache="warm",
        profile=False,
        memory=False,
        latency_alone=True,
        untuned=None,
    )
    return replace(job, plan=plan)
