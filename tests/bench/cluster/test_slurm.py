"""The script that sbatch gets, and what squeue says of jobs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import slurm
from modescope.bench.settings import preset

Script = Callable[[dict[str, Any]], str]

GIVEN: dict[str, tuple[Any, str]] = {
    "account": ("lab", "#SBATCH --account=lab"),
    "additional_parameters": ({"reservation": "r1"}, "#SBATCH --reservation=r1"),
    "array_parallelism": (2, "#SBATCH --array=0-2%2"),
    "comment": ("long one", "#SBATCH --comment='long one'"),
    "constraint": ("a100", "#SBATCH --constraint=a100"),
    "cpus_per_gpu": (6, "#SBATCH --cpus-per-gpu=6"),
    "cpus_per_task": (4, "#SBATCH --cpus-per-task=4"),
    "dependency": ("afterok:7", "#SBATCH --dependency=afterok:7"),
    "exclude": ("n[1-2]", "#SBATCH --exclude='n[1-2]'"),
    "exclusive": (True, "#SBATCH --exclusive"),
    "gpus_per_node": (1, "#SBATCH --gpus-per-node=1"),
    "gpus_per_task": (1, "#SBATCH --gpus-per-task=1"),
    "gres": ("gpu:2", "#SBATCH --gres=gpu:2"),
    "mem_gb": (0, "#SBATCH --mem=0GB"),  # all that the node has
    "mem_per_cpu": ("2G", "#SBATCH --mem-per-cpu=2G"),
    "mem_per_gpu": ("20G", "#SBATCH --mem-per-gpu=20G"),
    "name": ("mine", "#SBATCH --job-name=mine"),
    "nodelist": ("n7", "#SBATCH --nodelist=n7"),
    "partition": ("gpu", "#SBATCH --partition=gpu"),
    "qos": ("high", "#SBATCH --qos=high"),
    "setup": (["module load x"], "module load x"),
    "signal_delay_s": (0, "#SBATCH --signal=USR2@0"),
    "srun_args": (["--mpi=none"], "srun --unbuffered --output .* --mpi=none python"),
    "stderr_to_stdout": (False, "#SBATCH --error=.*"),
    "timeout_min": (5, "#SBATCH --time=5"),
}
"""A value of each option that submitit gets, and the line of the script for sbatch, a pattern."""


def defaults() -> dict[str, Any]:
    return preset("cluster", "cluster", "slurm")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """What submitit hands to sbatch for three jobs of 4 cases, each of 2 threads and 10 minutes."""
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))

    def call(options: dict[str, Any]) -> str:
        executor = submitit.AutoExecutor(tmp_path, cluster="slurm")
        engine = slurm.Slurm({**defaults(), **options}, 2, 600.0)
        executor.update_parameters(**engine._parameters(4, tmp_path / "path"))
        inner = executor._executor
        inner.parameters["map_count"] = 3
        return str(inner._make_submission_file_text("python work.py", "uid"))

    return call


def has_line(text: str, pattern: str) -> bool:
    """Whether a line is that text, where `.*` stands for anything."""
    expected = ".*".join(map(re.escape, pattern.split(".*")))
    return any(re.match(expected, line) for line in text.splitlines())


def test_the_table_has_all_options_that_submitit_gets() -> None:
    assert GIVEN.keys() == defaults().keys() - {*slurm.OWN}


@pytest.mark.filterwarnings('ignore:"cpus_per_gpu" requires')
@pytest.mark.parametrize("option", GIVEN)
def test_an_option_of_slurm_reaches_sbatch(option: str, script: Script) -> None:
    value, line = GIVEN[option]
    text = script({option: value})
    assert has_line(text, line), text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"--time=47", "--cpus-per-task=2", "--exclusive", "--ntasks-per-node=1"}),
        ({"gpus_per_node": 1}, {"--time=47", "--cpus-per-task=2", "--ntasks-per-node=1"}),
        ({"exclusive": False}, {"--time=47", "--cpus-per-task=2", "--ntasks-per-node=1"}),
    ],
    ids=["on the CPU", "on a GPU", "beside others"],
)
def test_what_a_job_of_so_many_cases_gets(
    options: dict[str, Any], expected: set[str], script: Script
) -> None:
    flags = {line.split()[1] for line in script(options).splitlines() if "#SBATCH" in line}
    names = ("--time", "--cpus", "--excl", "--ntasks")
    assert {flag for flag in flags if flag.startswith(names)} == expected
    assert "--requeue" in flags


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("7_0 RUNNING None\n7_1 PENDING (Priority)\n", [None, None]),
        ("7_0 COMPLETED None\n7_1 REQUEUED None\n", ["COMPLETED", None]),
        ("7_0 NODE_FAIL None\n", ["NODE_FAIL", "unknown to Slurm"]),
        (None, [None, None]),
    ],
    ids=["alive", "one requeued", "one forgotten", "no answer"],
)
def test_states_of_jobs(
    printed: str | None, expected: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = None if printed is None else subprocess.CompletedProcess([], 0, printed, "")
    monkeypatch.setattr(slurm, "_run", lambda *command: done)
    states = slurm.Slurm(defaults(), 1, 1.0).states(["7_0", "7_1"])
    assert [*states.values()] == expected


def test_why_a_job_waits_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.CompletedProcess([], 0, "7_0 PENDING (PartitionTimeLimit)\n", "")
    monkeypatch.setattr(slurm, "_run", lambda *command: done)
    engine = slurm.Slurm(defaults(), 1, 1.0)
    for _ in range(2):
        engine.states(["7_0"])
    assert capsys.readouterr().out.count("PartitionTimeLimit") == 1
