"""Sweeps on a real Slurm with two nodes on this machine's cores: no test compares durations.

Whatever happens to jobs and commands, the same command ends with a row for every case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.gpu.pretending import PRETENDED
from tests.helpers.commands import TINY, Answer, Cli, Started, rows, started, stored
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, parent, soon
from tests.helpers.slurm import NODES, Slurm

SLURM = ["-m", "cluster=slurm", "cluster.partition=main"]

SWEEP = [*TINY, *SLURM, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

REPLICATES = 6
ONE_JOB = [*TINY, *SLURM, "mode=eager", f"replicates={REPLICATES}", "cluster.workers=1"]

END_S = 400
"""Longest time of a sweep beside other work: a job may be started several times."""


def await_row(results: Path, sweep: Started) -> str:
    """The first job of the newest submission, once a row was written since the call."""
    before = stored(results)
    assert soon(lambda: stored(results) > before or sweep.process.poll() is not None, within_s=90)
    assert sweep.process.poll() is None, sweep.end()
    submitted = (results / "main" / "logs").glob("*-slurm-*/jobs.json")
    return str(json.loads(max(submitted).read_text())[0])


def end(sweep: Started) -> Answer:
    """What a command printed until its end."""
    answer = sweep.end(END_S)
    assert "Traceback" not in answer.err, answer
    return answer


def sweep_again(slurm: Slurm, results: Path, arguments: list[str]) -> Answer:
    """The same command after the jobs of the first have ended."""
    assert soon(lambda: not slurm.queue(), within_s=60)
    return end(started(results, arguments))


def assert_complete(results: Path) -> None:
    """The newest row of each replicate of `ONE_JOB` is ok.

    Slurm may end a case before the process that waits for it: then it has a row `crashed` as well.
    """
    newest = {row["replicate"]: row["status"] for row in rows(results)}
    assert newest == dict.fromkeys(range(REPLICATES), "ok")


def test_a_sweep_is_measured_on_both_nodes_and_reused_by_the_next(
    slurm: Slurm, results: Path
) -> None:
    answer = end(started(results, SWEEP))
    assert answer.status == 0, answer
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {row["node"] for row in found} == set(NODES)
    assert {(row["scheduler"], row["restart"]) for row in found} == {("slurm", 0)}
    assert answer.out.count("inference_mode") == 4  # the table
    again = sweep_again(slurm, results, SWEEP)
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 12


def job_process(sweep: Started) -> int:
    """The process of its one job: what srun has started by Slurm's own process."""
    of_jobs = set(alive(sweep.sign)) & set(alive("submitit.core._submit"))
    (number,) = (number for number in of_jobs if parent(number) in alive("slurmstepd"))
    return number


def test_cases_of_a_killed_job_are_named_and_measured_by_the_same_command(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_JOB)
    await_row(results, sweep)
    os.kill(job_process(sweep), signal.SIGKILL)
    answer = end(sweep)
    assert answer.status == 1, answer
    assert "(jobs: 1 FAILED)" in answer.err
    assert 0 < stored(results) < REPLICATES
    assert soon(lambda: not alive(sweep.sign), within_s=20), "processes are left"
    assert sweep_again(slurm, results, ONE_JOB).status == 0
    assert_complete(results)


@pytest.mark.parametrize("how", ["USR2", "requeue"])
def test_a_requeued_job_goes_on_where_it_stopped(how: str, slurm: Slurm, results: Path) -> None:
    sweep = started(results, ONE_JOB)
    job = await_row(results, sweep)
    if how == "USR2":  # preemption, or the time limit
        slurm.ask("scancel", "--signal=USR2", job)
    else:
        slurm.ask("scontrol", "requeue", job)
    slurm.start_requeued(job)
    answer = end(sweep)
    assert answer.status == 0, answer
    assert_complete(results)
    assert {row["restart"] for row in rows(results)} == {0, 1}
    assert {row["scheduler_job"] for row in rows(results)} == {job}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_jobs_go_on_without_the_command_and_the_same_one_waits_for_them(
    number: int, status: int, slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_JOB)
    job = await_row(results, sweep)
    os.killpg(sweep.process.pid, number)  # as a terminal does
    answer = end(sweep)
    assert answer.status == status, answer
    assert status < 0 or f"jobs {job}, their files" in answer.out
    attached = end(started(results, ONE_JOB))
    assert attached.status == 0, attached
    assert_complete(results)
    assert {row["scheduler_job"] for row in rows(results)} == {job}


def test_jobs_with_a_gpu_each_are_never_more_than_the_gpus(
    slurm: Slurm, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{PRETENDED}{os.pathsep}{ROOT}")
    arguments = [*SWEEP, "device=cuda", "cluster.gpus_per_node=1", "cluster.workers=4"]
    answer = end(started(results, arguments))
    assert answer.status == 0, answer
    found = rows(results)
    assert {row["node"] for row in found} == {"n1"}
    spans = [(datetime.fromisoformat(row["started_at"]).timestamp(), row) for row in found]
    times = sorted((begin, begin + row["duration_s"], row["scheduler_job"]) for begin, row in spans)
    assert len({job for _, _, job in times}) == 4
    for begin, _, _ in times:
        assert sum(other[0] <= begin < other[1] for other in times) <= 2


def test_what_sbatch_refuses_is_status_2_with_its_words(
    slurm: Slurm, cli: Cli, results: Path
) -> None:
    answer = cli(*TINY, "-m", "cluster=slurm", "cluster.partition=none", "mode=eager")
    assert answer.status == 2, answer
    refusal = answer.err.splitlines()[-1]
    assert refusal.startswith("error: sbatch refused the jobs: ")
    assert "invalid partition specified: none" in refusal
    assert "Traceback" not in answer.err
    assert slurm.queue() == []
    assert rows(results) == []


def test_a_command_within_a_job_submits_jobs_of_their_own(slurm: Slurm, results: Path) -> None:
    command = [sys.executable, str(ROOT / "run.py"), f"results_dir={results}", *ONE_JOB]
    out = slurm.ask("salloc", "--gpus=2", "--nodelist=n1", *command)
    assert "pointwise" in out
    assert_complete(results)
    assert {row["node"] for row in rows(results)} == {"n2"}  # the command has n1


def test_a_node_without_the_device_says_so(slurm: Slurm, results: Path) -> None:
    asked = [*TINY, *SLURM, "mode=eager", "device=cuda", "cluster.gpus_per_task=1"]
    answer = end(started(results, asked))
    assert answer.status == 2, answer
    assert answer.err.splitlines()[-1].startswith("error: device=cuda: ")
    assert rows(results) == []
