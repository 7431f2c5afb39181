"""Which machine of several measured, and for which job of a scheduler, as columns."""

from __future__ import annotations

from dataclasses import dataclass

from modescope.bench.records.columns import nullable

SENTINELS = "sentinels"
"""Folder of a study with the rows of its workers' sentinels; see `bench.sweep.sentinel`."""


@dataclass(frozen=True)
class Scheduling:
    """Where and by whom a run was started; no column enters the environment id or a case id."""

    node: str | None = nullable(
        "machine that measured: its name in the scheduler, else its host name; null in files from "
        "before this column"
    )
    scheduler: str | None = nullable(
        "slurm, ray, or local (several workers of one machine); null where no scheduler started "
        "the run"
    )
    scheduler_job: str | None = nullable(
        "the scheduler's name of the job, such as 1234_5 (task 5 of Slurm's job array 1234)"
    )
    restart: int | None = nullable(
        "how often the scheduler had restarted that job; null without a scheduler that counts it"
    )
    queue_wait_s: float | None = nullable(
        "time from the job's submission until its worker started; null without a scheduler, and "
        "after a restart"
    )
    worker: str | None = nullable("name of the worker within its sweep; null without workers")
