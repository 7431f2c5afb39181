"""Restarts, a dead node and GPUs on a real Slurm, with tasks that need no torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import folder, generations
from modescope.bench.cluster import slurm_engine as engine
from modescope.bench.cluster.driver import Driver
from tests.helpers.paths import ROOT
from tests.helpers.processes import soon
from tests.helpers.slurm import Slurm
from tests.helpers.slurm_sweeps import (
    await_claim,
    job_of,
)
from tests.helpers.stub_work import sweep_of, texts


@contextmanager
def driven(
    study: Path, requests: list[dict[str, Any]], workers: int, **options: Any
) -> Iterator[Any]:
    """The folder of a sweep, and the run ids to come of a driver beside this thread."""
    sweep = sweep_of(study, requests)
    given = engine.Slurm({"partition": "main", "timeout_min": 10, "cpus_per_task": 1, **options})
    name = folder.sweep_id(sweep, "slurm")
    jobs = generations.joined(study / "jobs", name, sweep, given).folder
    with ThreadPoolExecutor(1) as pool:
        yield jobs, pool.submit(lambda: list(Driver(jobs, given, workers).finished()))


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the tasks, which are defined in tests/
    return tmp_path / "study"


def statuses(study: Path) -> list[str]:
    return [text.split()[1] for text in texts(study)]


def test_a_requeued_worker_continues_its_task(slurm: Slurm, study: Path) -> None:
    with driven(study, [{"seconds": 2}] * 4, 1) as (jobs, found):
        claim = await_claim(jobs)
        slurm.ask("scontrol", "requeue", job_of(claim))
        slurm.start_requeued(job_of(claim))
        assert len(found.result(60)) == 4
    assert claim.run_id in found.result()
    assert statuses(study) == ["ok"] * 4
    assert {text.split()[2] for text in texts(study)} == {claim.worker}


def test_after_the_death_of_a_node_each_task_is_measured_once(slurm: Slurm, study: Path) -> None:
    with driven(study, [{"seconds": 1}] * 12, 2, exclusive=True) as (jobs, found):
        assert soon(lambda: any(line.endswith("RUNNING n2") for line in slurm.queue()), 20)
        (job,) = (line.split()[0] for line in slurm.queue() if line.endswith("n2"))
        claim = await_claim(jobs, of=f"slurm-{job}")
        slurm.kill_node("n2")
        slurm.start_requeued(job)
        assert len(set(found.result(60))) == 12
    assert statuses(study) == ["ok"] * 12
    assert claim.run_id in found.result()


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ({"gpus_per_task": 1, "tasks_per_node": 1}, 3),
        ({"gpus_per_node": 2, "tasks_per_node": 2}, 2),
    ],
    ids=["a GPU for each job", "two tasks of a job"],
)
def test_no_two_tasks_are_on_one_gpu_at_once(
    options: dict[str, int], workers: int, slurm: Slurm, study: Path
) -> None:
    with driven(study, [{"seconds": 0.3}] * 16, workers, **options) as (_, found):
        assert len(set(found.result(60))) == 16
    times: dict[str, list[tuple[float, float]]] = {}
    for text in texts(study):
        _, status, _, begin, end, gpu = text.split()
        assert status == "ok"
        times.setdefault(gpu, []).append((float(begin), float(end)))
    assert set(times) == {"0", "1"}
    for of_gpu in times.values():
        for before, after in itertools.pairwise(sorted(of_gpu)):
            assert before[1] <= after[0]
