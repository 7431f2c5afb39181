"""The function that submitit calls in a job."""

from __future__ import annotations

import os
from pathlib import Path

from submitit.helpers import DelayedSubmission

from modescope.bench.cluster import worker_process
from modescope.bench.cluster.folder import Folder


class Submitted:
    """A worker; submitit submits it again when its time is up, and it continues."""

    def __init__(self, folder: str, minutes: float | None, signal_delay_s: float) -> None:
        self._folder, self._minutes, self._signal_delay_s = folder, minutes, signal_delay_s

    def __call__(self, number: int) -> None:
        """Measures tasks until none is left."""
        _own_gpu()
        worker_process.run(Folder(Path(self._folder)), self._minutes, self._signal_delay_s)

    def checkpoint(self, number: int) -> DelayedSubmission:
        """What submitit submits again."""
        return DelayedSubmission(self, number)


def _own_gpu() -> None:
    """Of several tasks on a node that see all GPUs of the job, each takes another one."""
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    here, tasks = os.environ.get("SLURM_LOCALID", "0"), os.environ.get("SLURM_NTASKS_PER_NODE", "1")
    if len(gpus) > 1 and int(tasks.partition("(")[0]) > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(here) % len(gpus)]
        for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
            numbers = os.environ.get(name, "").split(",")
            if len(numbers) == len(gpus):
                os.environ[name] = numbers[int(here) % len(gpus)]
