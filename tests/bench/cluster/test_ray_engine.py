"""The states of Ray's actors, without Ray; with it in tests/system."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modescope.bench.cluster.members import GONE, PENDING, RUNNING, Process
from modescope.bench.cluster.ray_actor import Starter
from modescope.bench.cluster.ray_engine import Ray
from modescope.bench.records.errors import UsageError
from modescope.bench.sweep import isolation
from tests.helpers.processes import soon

pytestmark = pytest.mark.full


class RayError(Exception):
    pass


class GetTimeoutError(RayError):
    pass


class StandIn:
    """What the engine calls of Ray. `answers`: of actors, by name; an exception is raised."""

    exceptions = SimpleNamespace(RayError=RayError, GetTimeoutError=GetTimeoutError)

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.killed: list[str] = []

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="here")

    def wait(self, started: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return [each for each in started if each in self.answers], []

    def get(self, references: list[str], timeout: float) -> list[Any]:
        answer = self.answers[references[0]]
        if isinstance(answer, Exception):
            raise answer
        return [None, answer]

    def kill(self, actor: Any) -> None:
        self.killed.append(actor.name)

    def get_actor(self, name: str, namespace: str) -> None:
        if name not in self.answers:
            raise ValueError(name)


def engine_of(ray: StandIn, monkeypatch: pytest.MonkeyPatch, *own: str) -> Ray:
    engine = Ray({}, {})
    monkeypatch.setattr(engine, "_connected", lambda: ray)
    for name in own:
        status = SimpleNamespace(remote=lambda name=name: name)
        engine._actors[name] = SimpleNamespace(name=name, exit_status=status), name
    return engine


def test_states_are_those_of_the_workers_of_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    died = RayError("The actor died unexpectedly before finishing this task.\n\tclass_name: S")
    answers = {"lives": None, "ended": 0, "killed": -9, "dead": died, "busy": GetTimeoutError()}
    ray = StandIn(answers)
    engine = engine_of(ray, monkeypatch, "queued", *answers)
    states = engine.states(dict.fromkeys(["queued", *answers]))
    assert {name: state.kind for name, state in states.items()} == {
        "queued": PENDING, "lives": RUNNING, "ended": GONE, "killed": GONE, "dead": GONE,
        "busy": RUNNING,
    }  # fmt: skip
    assert states["killed"].reason == "its process ended by SIGKILL"
    assert states["dead"].reason == ("Ray: The actor died unexpectedly before finishing this task.")
    assert ray.killed == ["ended", "killed", "dead"]  # resources are given back, once
    engine.states(dict.fromkeys(["queued", *answers]))
    assert ray.killed == ["ended", "killed", "dead"]


def test_actors_of_other_commands_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    ended_process = asdict(Process.of(ended.pid))
    ended.wait()
    living = asdict(Process.of(os.getpid()))
    jobs = {
        "known": {"cluster": "here", "command": living},
        "unknown": {"cluster": "here", "command": living},
        "elsewhere": {"cluster": "there", "command": living},
        "orphan": {"cluster": "there", "command": ended_process},
        "submitted now": None,
    }
    states = engine_of(StandIn({"known": None}), monkeypatch).states(jobs)
    kinds = {name: state.kind for name, state in states.items()}
    assert kinds == {
        "known": RUNNING, "unknown": GONE, "elsewhere": RUNNING, "orphan": GONE,
        "submitted now": RUNNING,
    }  # fmt: skip


def test_what_ray_sets_for_its_processes_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    variables = Ray({}, {})._variables("x")
    assert variables["OMP_NUM_THREADS"] is None
    assert variables["CUDA_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in Ray({}, {"num_gpus": 1})._variables("x")


def test_more_than_ray_has_on_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray: Any = SimpleNamespace(cluster_resources=lambda: {"CPU": 2.0})
    Ray({}, {"num_cpus": 2})._check(ray)
    with pytest.raises(UsageError, match=r"remote\.num_gpus=1: Ray has 0 here; ask for fewer"):
        Ray({}, {"num_cpus": 2, "num_gpus": 1})._check(ray)
    Ray({"address": "auto"}, {"num_gpus": 8})._check(ray)


def test_an_actor_starts_a_worker_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    code = "import os, time; print(os.environ.get('OMP_NUM_THREADS'), flush=True); time.sleep(60)"
    log, starter = tmp_path / "log", Starter()
    assert starter.exit_status() is None
    starter.start([sys.executable, "-c", code], {"OMP_NUM_THREADS": None}, str(log))
    assert soon(lambda: log.read_text() == "None\n", within_s=10)
    assert starter.exit_status() is None
    starter.end(5)
    assert starter.exit_status() == -15
    assert isolation.how_it_ended(-15) == "by SIGTERM"
