"""Workers on the nodes of Ray, each started by an actor, which ends with the command."""

from __future__ import annotations

import importlib
import os
import secrets
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from modescope.bench.cluster import local_engine, ray_actor
from modescope.bench.cluster.engine import Jobs
from modescope.bench.cluster.folder import Folder
from modescope.bench.cluster.members import GONE, PENDING, RUNNING, Process, State
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep.isolation import how_it_ended

NAMESPACE = "modescope"

ANSWER_S = 10.0
"""Time for an actor to answer."""


class Ray:
    """See `bench.cluster.engine.Engine`.

    `init`: arguments of `ray.init`. `remote`: resources of a worker, as of `ray.remote`.
    """

    name = "ray"
    detaches = False
    pause_s = 1.0

    def __init__(
        self, init: Mapping[str, Any], remote: Mapping[str, Any], minutes: float | None = None
    ) -> None:
        self._init, self._remote, self._minutes = init, remote, minutes
        self._actors: dict[str, tuple[Any, Any]] = {}  # with the answer to `start`
        self._ended: dict[str, State] = {}

    def logs(self, folder: Folder) -> Path:
        """See `Engine`."""
        return folder.part("logs")

    def submit(self, folder: Folder, count: int) -> dict[str, Any]:
        """See `Engine`."""
        ray = self._connected()
        self._check(ray)
        starter = ray.remote(ray_actor.Starter)
        known = {"cluster": _cluster(ray), "command": asdict(Process.of(os.getpid()))}
        jobs = {}
        for number in range(count):
            name = f"{secrets.token_hex(3)}-{number}"
            actor = starter.options(name=name, max_restarts=0, **self._remote).remote()
            log = str(self.logs(folder) / f"{name}.log")
            command = local_engine.command(folder, self._minutes)
            self._actors[name] = actor, actor.start.remote(command, self._variables(name), log)
            jobs[name] = known
        return jobs

    def _variables(self, name: str) -> dict[str, str | None]:
        """What the worker's environment has beside that of Ray's process."""
        # Ray limits the threads of libraries, and hides GPUs of actors that ask for none
        undone = ["OMP_NUM_THREADS"]
        if not self._remote.get("num_gpus"):
            undone.append("CUDA_VISIBLE_DEVICES")
        ours = local_engine.variables({"scheduler": self.name, "job": name})
        return {**{each: os.environ.get(each) for each in undone}, **ours}

    def states(self, jobs: Jobs) -> dict[str, State] | None:
        """See `Engine`."""
        if not jobs:
            return {}
        ray = self._connected()
        return {name: self._state(ray, name, job) for name, job in jobs.items()}

    def _state(self, ray: Any, name: str, job: Any) -> State:
        if name in self._ended:
            return self._ended[name]
        if name not in self._actors:
            return _of_another_command(ray, name, job)
        actor, started = self._actors[name]
        if not ray.wait([started], timeout=0)[0]:
            return State(PENDING)
        try:
            _, status = ray.get([started, actor.exit_status.remote()], timeout=ANSWER_S)
        except ray.exceptions.GetTimeoutError:
            return State(RUNNING)
        except ray.exceptions.RayError as error:
            return self._end(ray, name, f"Ray: {str(error).strip().splitlines()[0]}")
        if status is None:
            return State(RUNNING)
        return self._end(ray, name, f"its process ended {how_it_ended(status)}")

    def _end(self, ray: Any, name: str, reason: str) -> State:
        """Gives the resources of a worker back."""
        with suppress(ray.exceptions.RayError):
            ray.kill(self._actors[name][0])
        return self._ended.setdefault(name, State(GONE, reason))

    def end(self, jobs: Jobs) -> None:
        """See `Engine`."""
        living = {name: both for name, both in self._actors.items() if name not in self._ended}
        if not living:
            return
        ray = self._connected()
        answers = [both[1] for both in living.values()]
        started = ray.wait(answers, num_returns=len(answers), timeout=0)[0]
        ending = [
            actor.end.remote(local_engine.END_S)
            for actor, answer in living.values()
            if answer in started
        ]
        if ending:
            ray.wait(ending, num_returns=len(ending), timeout=local_engine.END_S + ANSWER_S)
        for name in living:
            self._end(ray, name, "the command that started it was ended")

    def how_to_end(self, jobs: Jobs) -> str:
        """See `Engine`."""
        return "Ctrl-C"

    def _connected(self) -> Any:
        """Ray, connected to its nodes, or to one that is started here; UsageError without."""
        ray = importlib.import_module("ray")
        if ray.is_initialized():
            return ray
        before = signal.getsignal(signal.SIGTERM)
        quiet = {"logging_level": "warning", "log_to_driver": False, "namespace": NAMESPACE}
        try:
            ray.init(**{**quiet, **self._init})
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self._init.get("address") or "this machine"
            raise UsageError(f"cluster=ray: no Ray at {where}: {error}") from error
        finally:
            signal.signal(signal.SIGTERM, before)  # Ray sets its own
        ray.cloudpickle.register_pickle_by_value(ray_actor)
        return ray

    def _check(self, ray: Any) -> None:
        """Raises UsageError where no node can ever run a worker."""
        if self._init.get("address") or os.environ.get("RAY_ADDRESS"):
            return  # a cluster may grow
        here = ray.cluster_resources()
        for option, resource in (("num_cpus", "CPU"), ("num_gpus", "GPU")):
            wanted = self._remote.get(option) or 0
            if wanted > here.get(resource, 0):
                raise UsageError(
                    f"cluster.remote.{option}={wanted}: Ray has "
                    f"{here.get(resource, 0):g} here; ask for fewer, or name a cluster by "
                    "cluster.init.address"
                )


def _cluster(ray: Any) -> str:
    return str(ray.get_runtime_context().gcs_address)


def _of_another_command(ray: Any, name: str, job: Any) -> State:
    if job and job["cluster"] == _cluster(ray):
        try:
            ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            return State(GONE, "Ray does not know its actor any more")
        return State(RUNNING)
    command = Process(**job["command"]).state() if job else None
    if command and command.kind == GONE:
        return State(GONE, "the command that started it has ended")
    return State(RUNNING)
