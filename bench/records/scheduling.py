"""Which machine of several measured, and for which job of a scheduler, as columns."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from modescope.bench.records.columns import nullable

SLURM = "slurm"


@dataclass(frozen=True)
class Scheduling:
    """Where and by whom a run was started; no column enters the environment id or a case id."""

    node: str | None = nullable(
        "machine that measured: its name in the scheduler, else its host name; null in files from "
        "before this column"
    )
    scheduler: str | None = nullable(
        "slurm, ray, or gpus (a process per GPU of one machine); null where none of these started "
        "the run"
    )
    scheduler_job: str | None = nullable(
        "the scheduler's name of the job, such as 1234_5 (task 5 of Slurm's job array 1234); the "
        "GPU's UUID for gpus"
    )
    restart: int | None = nullable(
        "how often the scheduler had restarted that job; null without a scheduler that counts it"
    )


def scheduling(
    scheduler: str | None = None,
    *,
    job: str | None = None,
    variables: Mapping[str, str] = os.environ,
) -> Scheduling:
    """The columns of this process's runs.

    `scheduler` None: Slurm within a job of Slurm, else none. The job and its restarts are read from
    Slurm's variables; of other schedulers, `job` names it.
    """
    scheduler = scheduler or (SLURM if "SLURM_JOB_ID" in variables else None)
    by_slurm = scheduler == SLURM
    return Scheduling(
        node=variables.get("SLURMD_NODENAME") or socket.gethostname(),
        scheduler=scheduler,
        scheduler_job=job or (_slurm_job(variables) if by_slurm else None),
        restart=_restarts(variables) if by_slurm else None,
    )


def _slurm_job(variables: Mapping[str, str]) -> str | None:
    """`1234`, or `1234_5` for a task of a job array."""
    array, task = (variables.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else variables.get("SLURM_JOB_ID")


def _restarts(variables: Mapping[str, str]) -> int:
    """Slurm sets the variable only in a job that it has restarted."""
    count = variables.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdecimal() else 0
