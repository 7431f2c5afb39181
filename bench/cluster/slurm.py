"""The engine `slurm`: measures chunks in an array of Slurm jobs, which submitit submits.

The states of jobs are read from squeue, because submitit cannot tell that a job was killed if Slurm
keeps no accounts.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modescope.bench.cluster.chunk import Chunk, measure_chunk
from modescope.bench.cluster.distribute import States, distribute, largest_needs, require_gpus
from modescope.bench.records.errors import UsageError, terminate
from modescope.bench.resolve import Request
from modescope.bench.sweep.sweep import Submission

ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
"""States, as squeue prints them, of jobs that will not run again (see squeue(1))."""

START_S = 300.0
"""Part of a job's time limit, in seconds, for what precedes its first case, such as imports and
trying the models."""

GENERAL = (
    *("name", "timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node"),
    *("nodes", "tasks_per_node", "stderr_to_stdout"),
)
"""Options that submitit has for all schedulers; it names all others with the prefix `slurm_`."""

GPU_OPTIONS = ("gpus_per_node", "gpus_per_task", "cpus_per_gpu", "mem_per_gpu")
"""Options that ask for a GPU."""

OWN = ("engine", "workers", "max_num_timeout")
"""Options of conf/cluster/slurm.yaml that submitit's `update_parameters` does not take."""


class Checkpointed:
    """The function that a Slurm job calls.

    submitit calls `checkpoint` shortly before the time limit, and when the job is preempted.
    """

    def __call__(self, chunk: Chunk) -> None:
        """Measures the cases of the chunk that are not finished."""
        signal.signal(signal.SIGTERM, terminate)  # submitit ignores it, the case ends by it
        measure_chunk(chunk)

    def checkpoint(self, chunk: Chunk) -> Any:
        """Returns what submitit has to submit when it starts the job again: the same call."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, chunk)


class Slurm:
    """The `Engine` (bench.cluster.distribute) that submits an array of Slurm jobs.

    `options` has the settings in conf/cluster/slurm.yaml. A case needs at most `threads` threads
    and `timeout_s` seconds.
    """

    name = "slurm"
    detaches = True

    def __init__(self, options: Mapping[str, Any], threads: int, timeout_s: float) -> None:
        self._options, self._threads, self._timeout_s = options, threads, timeout_s

    def submit(self, chunks: Sequence[Chunk], folder: Path, path: str) -> list[str]:
        """Submits the chunks as a job array; returns Slurm's ids of the jobs. See `Engine`."""
        from submitit import AutoExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        requeues = self._options["max_num_timeout"]
        executor = AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=requeues)
        cases = max(len(chunk.numbers) for chunk in chunks)
        try:
            executor.update_parameters(**self._parameters(cases, path))
            with _outside_of_jobs():
                submitted = executor.map_array(Checkpointed(), chunks)
        except (FailedJobError, FailedSubmissionError, TypeError, ValueError) as error:
            said = " ".join(str(error).split())
            raise UsageError(f"sbatch refused the jobs: {said}") from error
        except AssertionError as error:  # submitit's check of types
            raise UsageError(f"cluster=slurm: {error}") from error
        return [job.job_id for job in submitted]

    def _parameters(self, cases: int, path: str) -> dict[str, Any]:
        """Returns submitit's parameters for jobs that measure up to `cases` cases each.

        `path` is added to the jobs' PYTHONPATH.
        """
        given = {
            key: value
            for key, value in self._options.items()
            # sbatch knows no --exclusive=False; 0 is a value
            if key not in OWN and value is not None and value is not False and value not in ({}, [])
        }
        delay_s = self._options["signal_delay_s"]
        minutes = math.ceil((cases * self._timeout_s + START_S + delay_s) / 60)
        needs = {"timeout_min": minutes, "cpus_per_task": self._threads}
        needs |= {"nodes": 1, "tasks_per_node": 1}  # an exclusive job has as many tasks as cores
        if "cpus_per_gpu" in given:
            del needs["cpus_per_task"]
        if not asks_for_gpus(self._options) and self._options["exclusive"] is None:
            needs["exclusive"] = True  # cases on the CPU take a node alone
        further = given.get("additional_parameters", {})
        if not any("requeue" in key for key in further):
            further = {**further, "requeue": True}  # some sites have set the opposite
        given["additional_parameters"] = further
        given["setup"] = [
            # since Slurm 22.05 srun does not take over the cores per task of sbatch
            '[ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
            # a network drive would make compiling look slow
            'export TMPDIR="${SLURM_TMPDIR:-/tmp}"',
            *given.get("setup", []),
            f'export PYTHONPATH={shlex.quote(path)}"${{PYTHONPATH:+:$PYTHONPATH}}"',
        ]
        every = {**needs, **given}
        return {key if key in GENERAL else f"slurm_{key}": value for key, value in every.items()}

    def states(self, jobs: Sequence[str]) -> States:
        """Returns how each job ended; None for a job that waits or runs. See `Engine`.

        All are None if squeue does not answer.
        """
        arrays = ",".join(sorted({job.partition("_")[0] for job in jobs}))
        command = ["squeue", "-h", "-r", "-t", "all", "-o", "%i %T", "-j", arrays]
        # without the user's own formats
        own = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        try:
            squeue = subprocess.run(command, capture_output=True, text=True, timeout=60, env=own)
        except (OSError, subprocess.TimeoutExpired):
            return dict.fromkeys(jobs)
        if squeue.returncode and "Invalid job id" not in squeue.stderr:
            return dict.fromkeys(jobs)
        known = dict(line.split() for line in squeue.stdout.splitlines() if line.strip())
        ended = {job: known.get(job, "unknown to Slurm") for job in jobs}
        return {
            job: how if how in ENDED or job not in known else None for job, how in ended.items()
        }


def submit(requests: Sequence[Request]) -> Submission | None:
    """Measures a sweep in Slurm jobs; see `bench.sweep.sweep.ENGINES`."""
    options = requests[0].settings.cluster
    if shutil.which("sbatch") is None:
        raise UsageError("cluster=slurm: sbatch was not found; run this command on a login node")
    workers = options["workers"] or options["array_parallelism"]
    asked = require_gpus(requests) if asks_for_gpus(options) else requests
    return distribute(asked, Slurm(options, *largest_needs(requests)), workers)


def asks_for_gpus(options: Mapping[str, Any]) -> bool:
    """Returns whether Slurm jobs with these options get a GPU."""
    further = [*(options["additional_parameters"] or {}).items(), ("gres", options["gres"])]
    texts = [f"{key}={value}" for key, value in further if value]
    return any(options[name] for name in GPU_OPTIONS) or any("gpu" in text for text in texts)


@contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Hides the variables of a Slurm job that this process may run in: sbatch would obey them."""
    in_job = "SLURM_JOB_ID" in os.environ
    names = [
        name for name in os.environ if in_job and name.startswith(("SLURM_", "SLURMD_", "SRUN_"))
    ]
    kept = {name: os.environ.pop(name) for name in names if name != "SLURM_CONF"}
    try:
        yield
    finally:
        os.environ.update(kept)
