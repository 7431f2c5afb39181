"""The engine `ray`: measures chunks in tasks of Ray, which end with the command."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modescope.bench.cluster.chunk import Chunk, measure_chunk
from modescope.bench.cluster.distribute import States, distribute, largest_needs, require_gpus
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.isolation import set_variables
from modescope.bench.sweep.sweep import Submission


class Ray:
    """The `Engine` (bench.cluster.distribute) that starts a task of Ray for each chunk.

    `init` has arguments of `ray.init`; `remote` has the resources of a task (`ray.remote`).
    """

    name = "ray"
    detaches = False

    def __init__(self, init: Mapping[str, Any], remote: Mapping[str, Any]) -> None:
        self._init, self._remote = init, remote
        self._ray: Any = importlib.import_module("ray")
        self._tasks: dict[str, Any] = {}

    def submit(self, chunks: Sequence[Chunk], folder: Path, path: str) -> list[str]:
        """Starts a task for each chunk; a job's id is the number of its chunk. See `Engine`."""
        if not self._ray.is_initialized():
            before = signal.getsignal(signal.SIGTERM)
            quiet = {"logging_level": "warning", "log_to_driver": False}
            try:
                self._ray.init(**quiet, **self._init)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise UsageError(f"cluster.init: {' '.join(str(error).split())}") from error
            finally:
                signal.signal(signal.SIGTERM, before)  # Ray sets its own
        gpus = self._remote.get("num_gpus") or 0
        grows = self._init.get("address") or os.environ.get("RAY_ADDRESS")
        there = self._ray.cluster_resources().get("GPU", 0)
        if not grows and gpus > there:  # Ray would wait for ever
            raise UsageError(f"cluster.remote.num_gpus={gpus}: Ray has {there:g} here")
        # Ray limits the threads of libraries, and hides GPUs of tasks that ask for none
        undone = ["OMP_NUM_THREADS", *([] if gpus else ["CUDA_VISIBLE_DEVICES"])]
        variables = {name: os.environ.get(name) for name in undone}
        task = self._ray.remote(measure).options(
            max_retries=0, runtime_env={"env_vars": {"PYTHONPATH": path}}, **self._remote
        )
        self._tasks = {f"{n}": task.remote(chunk, variables) for n, chunk in enumerate(chunks)}
        return [*self._tasks]

    def states(self, jobs: Sequence[str]) -> States:
        """Returns how each task ended; None for a task that waits or runs. See `Engine`."""
        return {job: self._state(self._tasks[job]) for job in jobs}

    def _state(self, task: Any) -> str | None:
        if not self._ray.wait([task], timeout=0)[0]:
            return None
        try:
            self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            return f"ended: {str(error).strip().splitlines()[-1]}"
        return "finished"


def measure(chunk: Chunk, variables: Mapping[str, str | None]) -> None:
    """Restores environment variables that Ray changed, then measures the chunk; runs in a task."""
    set_variables(variables)
    ray: Any = importlib.import_module("ray")
    measure_chunk(chunk, ray.get_runtime_context().get_task_id())


def submit(requests: Sequence[Request]) -> Submission | None:
    """Measures a sweep on the nodes of Ray; see `bench.sweep.sweep.ENGINES`."""
    options = requests[0].settings.cluster
    init, remote = (
        {key: value for key, value in (options[part] or {}).items() if value is not None}
        for part in ("init", "remote")
    )
    remote.setdefault("num_cpus", largest_needs(requests)[0])
    asked = require_gpus(requests) if remote.get("num_gpus") else requests
    return distribute(asked, Ray(init, remote), options["workers"])
