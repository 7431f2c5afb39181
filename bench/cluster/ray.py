"""Chunks as tasks of Ray, which end with the command."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modescope.bench.cluster.chunk import Chunk, measure_chunk
from modescope.bench.cluster.distribute import LINK, States, distribute, needs, on_gpus
from modescope.bench.records.errors import UsageError
from modescope.bench.resolve import Request
from modescope.bench.sweep.isolation import restore
from modescope.bench.sweep.sweep import Submission


class Ray:
    """See `bench.cluster.distribute.Engine`.

    `init`: arguments of `ray.init`. `remote`: resources of a chunk, as of `ray.remote`.
    """

    name = "ray"
    detaches = False

    def __init__(self, init: Mapping[str, Any], remote: Mapping[str, Any]) -> None:
        self._init, self._remote = init, remote
        self._ray: Any = importlib.import_module("ray")
        self._tasks: dict[str, Any] = {}

    def submit(self, chunks: Sequence[Chunk], folder: Path) -> list[str]:
        """See `Engine`."""
        before = signal.getsignal(signal.SIGTERM)
        path = os.pathsep.join(filter(None, (str(folder / LINK), os.environ.get("PYTHONPATH"))))
        if not self._ray.is_initialized():
            quiet = {"logging_level": "warning", "log_to_driver": False}
            try:
                self._ray.init(**quiet, **self._init)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise UsageError(f"cluster.init: {' '.join(str(error).split())}") from error
            finally:
                signal.signal(signal.SIGTERM, before)  # Ray sets its own
        self._check()
        # Ray limits the threads of libraries, and hides GPUs of tasks that ask for none
        undone = ["OMP_NUM_THREADS", *(["CUDA_VISIBLE_DEVICES"] if not self._gpus() else [])]
        variables = {name: os.environ.get(name) for name in undone}
        environment = {"env_vars": {"PYTHONPATH": path}}
        task = self._ray.remote(measure).options(
            max_retries=0, runtime_env=environment, **self._remote
        )
        for number, chunk in enumerate(chunks):
            self._tasks[f"{number}"] = task.remote(chunk, variables)
        return [*self._tasks]

    def _gpus(self) -> float:
        return float(self._remote.get("num_gpus") or 0)

    def _check(self) -> None:
        """Raises UsageError if the Ray that this command has started can never run a chunk."""
        if self._init.get("address") or os.environ.get("RAY_ADDRESS"):
            return  # a cluster may grow
        here = self._ray.cluster_resources()
        for option, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            wanted, there = self._remote.get(option) or 0, here.get(resource, 0)
            if wanted > there:
                raise UsageError(
                    f"cluster.remote.{option}={wanted}: Ray has {there:g} here; ask for fewer, or "
                    "name a cluster by cluster.init.address"
                )

    def states(self, jobs: Sequence[str]) -> States:
        """See `Engine`."""
        return {job: self._state(self._tasks[job]) for job in jobs}

    def _state(self, task: Any) -> str | None:
        if not self._ray.wait([task], timeout=0)[0]:
            return None
        try:
            self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            return f"ended: {str(error).strip().splitlines()[-1]}"
        return "finished"

    def interrupt(self, jobs: Sequence[str]) -> None:
        """See `Engine`."""
        for task in self._tasks.values():
            self._ray.cancel(task, force=True)
        self._ray.shutdown()


def measure(chunk: Chunk, variables: Mapping[str, str | None]) -> None:
    """What a task calls; the variables that Ray has set are put back before torch is imported."""
    restore(variables)
    ray: Any = importlib.import_module("ray")
    measure_chunk(chunk, ray.get_runtime_context().get_task_id())


def submit(requests: Sequence[Request]) -> Submission | None:
    """Measures a sweep on the nodes of Ray; see `bench.sweep.sweep.ENGINES`."""
    options = requests[0].settings.cluster
    init, remote = (
        {key: value for key, value in (options[part] or {}).items() if value is not None}
        for part in ("init", "remote")
    )
    remote.setdefault("num_cpus", needs(requests)[0])
    asked = on_gpus(requests) if remote.get("num_gpus") else requests
    return distribute(asked, Ray(init, remote), options["workers"])
