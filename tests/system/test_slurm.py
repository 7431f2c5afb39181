"""Sweeps on a real Slurm with two nodes on this machine's cores: no test compares durations."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import claims, folder, generations
from modescope.bench.cluster import slurm_engine as engine
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.driver import Driver
from modescope.bench.cluster.folder import Folder
from tests.helpers.commands import TINY, Cli, Started, rows, started, stored
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, parent, soon
from tests.helpers.slurm import NODES, Slurm
from tests.helpers.stub_work import sweep_of, texts

SLURM = ["-m", "hydra/launcher=submitit_slurm", "hydra.launcher.partition=main"]

SWEEP = [*TINY, *SLURM, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

ONE_WORKER = [*TINY, *SLURM, "mode=eager", "replicates=4", "hydra.launcher.workers=1"]


def folder_of(results: Path) -> Folder:
    """The folder of the one sweep that was begun."""
    (path,) = (results / "main" / "jobs").iterdir()
    return Folder(path)


def await_claim(jobs: Folder, of: str = "") -> Claim:
    """A claim of a task that is being measured, of such a worker."""
    found: list[Claim] = []

    def look() -> bool:
        known = [claims.read(jobs, *one) for one in claims.open_claims(jobs)]
        found[:] = [claim for claim in known if claim.worker.startswith(of)]
        return bool(found)

    assert soon(look, within_s=60), (jobs.path, of)
    return found[0]


def await_row(results: Path, sweep: Started) -> Folder:
    """The sweep's folder, once a case of it was measured."""
    assert soon(lambda: stored(results) or sweep.process.poll() is not None, within_s=60)
    assert sweep.process.poll() is None, sweep.end()
    return folder_of(results)


# Sweeps of real cases


def test_a_sweep_is_measured_on_both_nodes_and_reused_by_the_next(
    slurm: Slurm, results: Path
) -> None:
    answer = started(results, SWEEP).end()
    assert answer.status == 0, answer
    assert answer.out.startswith("12 cases on 8 workers of Slurm (partition main) → ")
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {row["node"] for row in found} == set(NODES)
    assert {row["scheduler"] for row in found} == {"slurm"}
    assert all(row["worker"] == f"slurm-{row['scheduler_job']}" for row in found)
    assert all(row["restart"] == 0 and row["queue_wait_s"] > 0 for row in found)
    assert answer.out.count("inference_mode") == 4  # the table
    assert soon(lambda: not slurm.queue(), within_s=20)

    again = started(results, SWEEP).end()
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 12


def test_two_commands_at_once_measure_each_case_once(slurm: Slurm, results: Path) -> None:
    both = [started(results, SWEEP) for _ in range(2)]
    answers = [sweep.end() for sweep in both]
    assert [answer.status for answer in answers] == [0, 0], answers
    assert all(answer.out.count("inference_mode") == 4 for answer in answers)
    assert [row["status"] for row in rows(results)] == ["ok"] * 12
    assert stored(results) == 12


def worker_of(sweep: Started) -> int:
    """The process of its one worker: what srun has started by Slurm's own process."""
    of_jobs = set(alive(sweep.sign)) & set(alive("submitit.core._submit"))
    (number,) = (number for number in of_jobs if parent(number) in alive("slurmstepd"))
    return number


def test_of_a_killed_worker_there_is_a_row_and_others_measure_the_rest(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    jobs = await_row(results, sweep)
    worker = worker_of(sweep)
    while True:
        claim = await_claim(jobs)
        os.kill(worker, signal.SIGSTOP)
        if not (results / "main" / "runs" / f"{claim.run_id}.parquet").exists():
            break
        os.kill(worker, signal.SIGCONT)
    children = [number for number in alive(sweep.sign) if parent(number) == worker]
    assert children
    os.kill(worker, signal.SIGKILL)
    answer = sweep.end()
    assert answer.status == 1, answer
    assert "Traceback" not in answer.err
    found = {row["run_id"]: row for row in rows(results)}
    assert sorted(row["status"] for row in found.values()) == ["crashed", "ok", "ok", "ok"]
    lost = found[claim.run_id]
    assert lost["status"] == "crashed"
    assert "was lost: Slurm: FAILED" in lost["reason"]
    assert lost["node"] in NODES
    assert lost["worker"] == claim.worker
    assert len({row["replicate"] for row in found.values()}) == 4
    assert soon(lambda: not alive(sweep.sign), within_s=20)


def test_a_worker_that_is_told_to_make_room_continues_its_case_after_a_restart(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    claim = await_claim(await_row(results, sweep))
    slurm.ask("scancel", "--signal=USR2", job_of(claim))
    slurm.start_requeued(job_of(claim))
    answer = sweep.end()
    assert answer.status == 0, answer
    found = {row["run_id"]: row for row in rows(results)}
    assert [row["status"] for row in found.values()] == ["ok"] * 4
    assert {row["scheduler_job"] for row in found.values()} == {job_of(claim)}
    assert {row["restart"] for row in found.values()} == {0, 1}
    assert claim.run_id in found
    waits = {row["restart"]: row["queue_wait_s"] for row in found.values()}
    assert waits[1] > waits[0]


def test_ctrl_c_detaches_and_the_same_command_attaches(slurm: Slurm, results: Path) -> None:
    sweep = started(results, ONE_WORKER)
    jobs = await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)  # as a terminal does
    answer = sweep.end()
    assert answer.status == 130, answer
    assert "Traceback" not in answer.err
    (job,) = {claim.worker for claim in [await_claim(jobs)]}
    (line,) = (line for line in answer.out.splitlines() if "; scancel " in line)
    assert line == (
        f"the workers go on; scancel {job.removeprefix('slurm-')} ends them, and the same command "
        "attaches again"
    )
    attached = started(results, ONE_WORKER).end()
    assert attached.status == 0, attached
    assert [row["status"] for row in rows(results)] == ["ok"] * 4
    assert {row["worker"] for row in rows(results)} == {job}


def test_after_the_scancel_that_was_printed_the_same_command_measures_the_rest(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_WORKER)
    await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)
    (line,) = (line for line in sweep.end().out.splitlines() if "; scancel " in line)
    slurm.ask(*shlex.split(line.partition("; ")[2].partition(" ends them")[0]))
    assert soon(lambda: not slurm.queue(), within_s=20)
    before = stored(results)
    assert before < 4
    answer = started(results, ONE_WORKER).end()
    assert answer.status == 0, answer
    assert [row["status"] for row in rows(results)] == ["ok"] * 4
    assert len({row["worker"] for row in rows(results)}) == 2


# Commands that submit nothing


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mode=eager,egaer"], "mode=egaer"),
        (["mode=eager", "shape.ops=8,0"], "shape.ops=0: must be a whole number"),
        (["mode=eager", "device=cuda"], "device=cuda: no GPU is asked for"),
        (["mode=eager", "hydra.launcher.partitoin=main"], "partitoin"),
        (["mode=eager", "hydra.launcher.timeout_min=1"], "hydra.launcher.timeout_min=1: "),
    ],
)
def test_a_mistake_is_status_2_and_no_job(
    arguments: list[str], sentence: str, slurm: Slurm, cli: Cli, results: Path
) -> None:
    before = slurm.jobs()
    answer = cli(*TINY, *SLURM, *arguments)
    assert answer.status == 2
    assert sentence in answer.err
    assert "Traceback" not in answer.err
    assert slurm.jobs() == before
    assert not (results / "main" / "jobs").exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("hydra.launcher.partition=none", "invalid partition specified: none"),
        ("hydra.launcher.gpus_per_node=3", "Requested node configuration is not available"),
        ("+hydra.launcher.additional_parameters={nosuch: 1}", "unrecognized option '--nosuch=1'"),
    ],
)
def test_what_sbatch_refuses_is_status_2_with_its_words(
    option: str, sentence: str, slurm: Slurm, cli: Cli, results: Path
) -> None:
    arguments = [each for each in SLURM if each.partition("=")[0] != option.partition("=")[0]]
    answer = cli(*TINY, *arguments, "mode=eager", option)
    assert answer.status == 2, answer
    assert answer.err.splitlines()[-1].startswith("error: sbatch refused the workers: ")
    assert sentence in answer.err
    assert "Traceback" not in answer.err
    assert slurm.queue() == []
    assert rows(results) == []


def test_a_job_that_slurm_never_starts_is_said(slurm: Slurm, results: Path) -> None:
    sweep = started(results, [*ONE_WORKER, "hydra.launcher.cpus_per_task=99"])
    assert sweep.process.stdout is not None
    said = next(line for line in sweep.process.stdout if "in the queue" in line)
    assert said.startswith("1 worker waits in the queue, Slurm: PartitionConfig; scancel ")
    sweep.process.send_signal(signal.SIGINT)
    assert sweep.end().status == 130


def test_a_command_within_a_job_submits_workers_of_their_own(slurm: Slurm, results: Path) -> None:
    command = [sys.executable, str(ROOT / "run.py"), f"results_dir={results}", *ONE_WORKER]
    out = slurm.ask("salloc", "--gpus=2", "--nodelist=n1", *command)
    assert "pointwise" in out
    assert [row["status"] for row in rows(results)] == ["ok"] * 4
    assert {row["node"] for row in rows(results)} == {"n2"}  # the command has n1
    (worker,) = folder_of(results).names("workers")
    assert {row["worker"] for row in rows(results)} == {worker}


def test_a_dry_run_leaves_the_queue_empty(slurm: Slurm, cli: Cli, results: Path) -> None:
    before = slurm.jobs()
    answer = cli(*SWEEP, "--dry-run")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("would start 8 workers of Slurm (partition main), for 12 cases → ")
    assert slurm.jobs() == before
    assert not (results / "main" / "jobs").exists()


def test_a_worker_that_finds_no_gpu_says_so(slurm: Slurm, results: Path) -> None:
    asked = [*TINY, *SLURM, "mode=eager", "hydra.launcher.gpus_per_task=1"]
    answer = started(results, asked).end()
    assert answer.status == 2, answer
    assert answer.err.splitlines()[-1].startswith("error: device=cuda: ")
    assert rows(results) == []


# Tasks without torch


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


def job_of(claim: Claim) -> str:
    return claim.worker.removeprefix("slurm-")


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
