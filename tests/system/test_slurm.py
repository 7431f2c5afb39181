"""Sweeps on a real Slurm with two nodes on this machine's cores: no test compares durations.

Whatever happens to jobs and commands, the same command ends with a row for every case.
"""

from __future__ import annotations

import itertools
import os
import random
import shlex
import signal
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, Cli, Started, rows, started, stored
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, parent, soon
from tests.helpers.slurm import NODES, Slurm
from tests.helpers.slurm_sweeps import (
    ONE_JOB,
    SLURM,
    SWEEP,
    await_row,
    end,
    submissions,
    sweep_again,
)

REPLICATES = 6


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
    assert "1 job FAILED" in answer.err
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


def test_a_job_over_its_time_limit_is_named_and_the_same_command_goes_on(
    slurm: Slurm, results: Path
) -> None:
    """Slurm counts minutes, so the job waits for more than that; no signal comes before."""
    limited = [*ONE_JOB, "cluster.timeout_min=1", "cluster.signal_delay_s=0"]
    slow = [*limited, "model=custom", "model.target=slow_model:build", "shape=default"]
    arguments = [each for each in slow if each not in ("model=pointwise", "shape=small")]
    folder = results.parent / "models"
    folder.mkdir()
    (folder / "slow_model.py").write_text(
        "import pathlib, time, torch\n"
        "def build():\n"
        f"    slow = pathlib.Path({str(folder)!r}, 'slow')\n"
        "    time.sleep(25 if slow.exists() else 0)\n"
        "    return torch.nn.Linear(4, 4), (torch.ones(2, 4),)\n"
    )
    (folder / "slow").touch()
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    sweep = started(results, arguments, PYTHONPATH=path)
    answer = end(sweep)
    assert answer.status == 1, answer
    assert "1 job TIMEOUT" in answer.err
    assert stored(results) < REPLICATES
    (folder / "slow").unlink()
    assert soon(lambda: not slurm.queue(), within_s=60)
    assert end(started(results, arguments, PYTHONPATH=path)).status == 0
    assert_complete(results)


def test_after_the_death_of_a_node_its_cases_are_measured_on_the_other(
    slurm: Slurm, results: Path
) -> None:
    arguments = [*TINY, *SLURM, "mode=eager", "replicates=16", "cluster.workers=2"]
    sweep = started(results, arguments)
    await_row(results, sweep)
    assert soon(lambda: any(line.endswith("RUNNING n2") for line in slurm.queue()), 60)
    (job,) = (line.split()[0] for line in slurm.queue() if line.endswith("n2"))
    slurm.kill_node("n2")
    slurm.start_requeued(job)
    answer = end(sweep)
    assert answer.status == 0, answer
    newest = {row["replicate"]: row["status"] for row in rows(results)}
    assert newest == dict.fromkeys(range(16), "ok")


def test_ctrl_c_leaves_the_jobs_and_the_same_command_waits_for_them(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_JOB)
    job = await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)  # as a terminal does
    answer = end(sweep)
    assert answer.status == 130, answer
    assert f"`scancel {job.partition('_')[0]}`" in answer.out
    attached = end(started(results, ONE_JOB))
    assert attached.status == 0, attached
    assert_complete(results)
    assert {row["scheduler_job"] for row in rows(results)} == {job}


def test_after_the_scancel_that_was_printed_the_same_command_measures_the_rest(
    slurm: Slurm, results: Path
) -> None:
    sweep = started(results, ONE_JOB)
    await_row(results, sweep)
    os.killpg(sweep.process.pid, signal.SIGINT)
    (command,) = (each for each in end(sweep).out.split("`") if each.startswith("scancel "))
    slurm.ask(*shlex.split(command))
    assert soon(lambda: not slurm.queue(), within_s=20)
    assert 0 < stored(results) < REPLICATES
    assert sweep_again(slurm, results, ONE_JOB).status == 0
    assert_complete(results)
    assert len(submissions(results)) == 2


def test_the_command_is_killed_and_its_jobs_go_on(slurm: Slurm, results: Path) -> None:
    moments = random.Random(20261126)
    sweep = started(results, ONE_JOB)
    await_row(results, sweep)
    for _ in range(5):
        time.sleep(moments.random())
        sweep.process.kill()
        sweep.process.communicate()
        sweep = started(results, ONE_JOB)
    assert end(sweep).status == 0
    assert_complete(results)


def test_jobs_with_a_gpu_each_are_never_more_than_the_gpus(
    slurm: Slurm, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretended = ROOT / "tests" / "helpers" / "pretended"
    monkeypatch.setenv("PYTHONPATH", f"{pretended}{os.pathsep}{ROOT}")
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
    by_job = itertools.groupby(sorted(times, key=lambda each: each[2]), key=lambda each: each[2])
    for _, of_job in by_job:
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(sorted(of_job)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mode=eager,egaer"], "mode=egaer"),
        (["mode=eager", "shape.ops=8,0"], "shape.ops=0: must be a whole number"),
        (["mode=eager", "cluster.partitoin=main"], "partitoin"),
        (["mode=eager", "cluster.gpus_per_node=3"], "cluster.gpus_per_node=3: a job uses one"),
        (["mode=eager", "cluster.timeout_min=soon"], "cluster.timeout_min=soon: "),
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


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("cluster.partition=none", "invalid partition specified: none"),
        ("cluster.gres=gpu:3", "Requested node configuration is not available"),
        ("+cluster.additional_parameters={nosuch: 1}", "unrecognized option '--nosuch=1'"),
    ],
)
def test_what_sbatch_refuses_is_status_2_with_its_words(
    option: str, sentence: str, slurm: Slurm, cli: Cli, results: Path
) -> None:
    arguments = [each for each in SLURM if each.partition("=")[0] != option.partition("=")[0]]
    answer = cli(*TINY, *arguments, "mode=eager", option)
    assert answer.status == 2, answer
    assert answer.err.splitlines()[-1].startswith("error: sbatch refused the jobs: ")
    assert sentence in answer.err
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


def test_a_refused_mode_is_a_row(slurm: Slurm, results: Path) -> None:
    answer = end(started(results, [*TINY, *SLURM, "mode=eager,cuda-graph"]))
    assert answer.status == 0, answer
    assert sorted(row["status"] for row in rows(results)) == ["ok", "skipped"]
