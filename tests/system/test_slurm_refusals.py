"""Commands for a real Slurm that it cannot follow, or that only say what would be submitted."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, Cli, rows, started
from tests.helpers.paths import ROOT
from tests.helpers.slurm import Slurm
from tests.helpers.slurm_sweeps import (
    ONE_WORKER,
    SLURM,
    SWEEP,
    folder_of,
)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mode=eager,egaer"], "mode=egaer"),
        (["mode=eager", "shape.ops=8,0"], "shape.ops=0: must be a whole number"),
        (["mode=eager", "device=cuda"], "device=cuda: no GPU is asked for"),
        (["mode=eager", "cluster.partitoin=main"], "partitoin"),
        (["mode=eager", "cluster.timeout_min=1"], "cluster.timeout_min=1: "),
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
        ("cluster.partition=none", "invalid partition specified: none"),
        ("cluster.gpus_per_node=3", "Requested node configuration is not available"),
        ("+cluster.additional_parameters={nosuch: 1}", "unrecognized option '--nosuch=1'"),
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
    sweep = started(results, [*ONE_WORKER, "cluster.cpus_per_task=99"])
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
    answer = cli(*SWEEP, "dry_run=true")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("would start 8 workers of Slurm (partition main), for 12 cases → ")
    assert slurm.jobs() == before
    assert not (results / "main" / "jobs").exists()


def test_a_worker_that_finds_no_gpu_says_so(slurm: Slurm, results: Path) -> None:
    asked = [*TINY, *SLURM, "mode=eager", "cluster.gpus_per_task=1"]
    answer = started(results, asked).end()
    assert answer.status == 2, answer
    assert answer.err.splitlines()[-1].startswith("error: device=cuda: ")
    assert rows(results) == []
