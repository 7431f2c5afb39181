"""Workers as an array of jobs of Slurm, submitted by submitit.

Their state is read from squeue: results of submitit say nothing of a job that was killed where
Slurm keeps no accounts.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import modescope
from modescope.bench.cluster import members
from modescope.bench.cluster.engine import Jobs
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, State
from modescope.bench.records.errors import UsageError

COMMAND_TIMEOUT_S = 60

QUEUED = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING")
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"),
)
"""States of jobs, see squeue(1); in all others a job has nodes."""

USUAL = ("None", "Priority", "Resources", "BeginTime", "JobArrayTaskLimit", "Cleaning")
"""Why jobs wait, see squeue(1), without a reason that a user should know of."""

OF_A_JOB = ("SLURM_", "SLURMD_", "SRUN_")
"""How variables begin that Slurm sets in a job."""

MAX_ARRAY_SIZE = 1001
"""Slurm's default."""

SIGNAL_DELAY_S = 90
"""Default of submitit."""

REQUEUES_MAX = 3
"""How often submitit starts a job again that its time limit has ended; at least."""

GENERAL = ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node")
"""Options that submitit has for all schedulers; others begin with `slurm_` there."""


class Slurm:
    """See `bench.cluster.engine.Engine`."""

    name = "slurm"
    detaches = True
    pause_s = 2.0

    def __init__(self, options: Mapping[str, Any], requeues: int = REQUEUES_MAX) -> None:
        self._options = options
        self._requeues = max(REQUEUES_MAX, requeues)

    def logs(self, folder: Folder) -> Path:
        """See `Engine`."""
        return folder.path / "slurm"

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        """See `Engine`."""
        from submitit import AutoExecutor
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        from modescope.bench.cluster.submitted import Submitted

        check()
        executor = AutoExecutor(
            folder=self.logs(folder), cluster="slurm", slurm_max_num_timeout=self._requeues
        )
        count = min(math.ceil(count / tasks_per_job(self._options)), _max_array_size())
        minutes = self._options.get("timeout_min")
        worker = Submitted(str(folder.path), minutes, signal_delay_s(self._options))
        try:
            executor.update_parameters(**parameters(self._options))
            with _outside_of_jobs(), _without_ctrl_c():
                submitted = executor.map_array(worker, range(count))
        except (FailedJobError, FailedSubmissionError, TypeError, ValueError) as error:
            raise UsageError(
                f"sbatch refused the workers: {' '.join(str(error).split())}"
            ) from error
        return {job.job_id: None for job in submitted}

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        """See `Engine`."""
        if not jobs:
            return {}
        wanted = ",".join(sorted({name.partition("_")[0] for name in jobs}))
        squeue = _run("squeue", "-h", "-r", "-t", "all", "-o", "%i %T %r", "-j", wanted)
        if squeue is None or (squeue.returncode and "Invalid job id" not in squeue.stderr):
            return None
        lines = [line.split() for line in squeue.stdout.splitlines()]
        known = {words[0]: _state(words[1], words[2:]) for words in lines if len(words) > 1}
        missing = [name for name in jobs if name not in known]
        known |= {name: _state(state) for name, state in _ended(missing).items()}
        unknown = State(GONE, "Slurm does not know its job any more")
        return {name: known.get(name, unknown) for name in jobs}

    def end(self, jobs: Jobs) -> None:
        """See `Engine`."""
        if jobs:
            _run("scancel", "--state=PENDING", *_arrays(jobs))

    def how_to_end(self, jobs: Jobs) -> str:
        """See `Engine`."""
        return " ".join(["scancel", *_arrays(jobs)])


def check() -> None:
    """Raises UsageError where Slurm's commands are missing."""
    for command in ("sbatch", "squeue", "srun"):
        if shutil.which(command) is None:
            raise UsageError(
                f"cluster=slurm: {command} is not installed here; start the sweep "
                "on a login node of Slurm, or use cluster=gpus"
            )


def parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as submitit names them, with what workers need."""
    # sbatch knows no --exclusive=False; 0 is a value
    given = {
        key: value
        for key, value in options.items()
        if value is not None and value is not False and value not in ({}, [])
    }
    further = given.pop("additional_parameters", {})
    if not any("requeue" in key for key in further):
        further = {**further, "requeue": True}  # some sites have set the opposite
    setup = [
        *given.pop("setup", []),
        f"export {members.SUBMITTED}={time.time():.3f}",
        # since Slurm 22.05 srun does not take over the cores per task of sbatch
        '[ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
        f'export PYTHONPATH="{Path(modescope.__file__).absolute().parents[1]}'
        '${PYTHONPATH:+:$PYTHONPATH}"',
    ]
    shared = (*GENERAL, "tasks_per_node", "stderr_to_stdout")
    named = {key if key in shared else f"slurm_{key}": value for key, value in given.items()}
    return {**named, "slurm_setup": setup, "slurm_additional_parameters": further}


def tasks_per_job(options: Mapping[str, Any]) -> int:
    """How many workers a job has."""
    return (options.get("nodes") or 1) * (options.get("tasks_per_node") or 1)


def signal_delay_s(options: Mapping[str, Any]) -> float:
    """How long before the end of a job Slurm signals that."""
    given = options.get("signal_delay_s")
    return float(SIGNAL_DELAY_S if given is None else given)


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """A terminal's Ctrl-C reaches the commands that are started, too; within it they ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _outside_of_jobs() -> Iterator[None]:
    """Without the variables of a job that this process belongs to: its workers would obey them."""
    in_job = "SLURM_JOB_ID" in os.environ
    names = [name for name in os.environ if in_job and name.startswith(OF_A_JOB)]
    kept = {name: os.environ.pop(name) for name in names if name != "SLURM_CONF"}
    try:
        yield
    finally:
        os.environ.update(kept)


def _max_array_size() -> int:
    config = _run("scontrol", "show", "config")
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", config.stdout if config else "", flags=re.M)
    return max(1, int(match[1]) if match else MAX_ARRAY_SIZE)


def _ended(jobs: list[str]) -> dict[str, str]:
    """How jobs ended that squeue does not list any more, where Slurm keeps accounts.

    Jobs whose end its accounts have missed are said to be running there for ever.
    """
    if not jobs or shutil.which("sacct") is None:
        return {}
    sacct = _run("sacct", "-n", "-P", "-X", "-o", "JobID,State", "-j", ",".join(jobs))
    if sacct is None or sacct.returncode:
        return {}
    lines = [line.split("|") for line in sacct.stdout.splitlines()]
    states = {words[0]: words[1].split()[0] for words in lines if len(words) > 1 and words[1]}
    return {name: state for name, state in states.items() if state in ENDED}


def _state(name: str, reason: Sequence[str] = ()) -> State:
    if name in QUEUED:
        unusual = [word for word in reason if word.strip("()") not in USUAL]
        return State(PENDING, f"Slurm: {' '.join(unusual)}" if unusual else None)
    return State(GONE, f"Slurm: {name}") if name in ENDED else State(RUNNING)


def _arrays(jobs: Jobs) -> list[str]:
    return sorted({name.partition("_")[0] for name in jobs})


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    """A command of Slurm; None where it could not be run, or did not end."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, env=_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _environment() -> dict[str, str]:
    """Without the user's own formats of squeue."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
