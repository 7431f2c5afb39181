"""The script that sbatch gets, and what squeue says of jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import slurm
from modescope.bench.settings import preset

Script = Callable[[dict[str, Any]], str]

GIVEN: dict[str, Any] = {
    **dict.fromkeys(
        ("account", "comment", "constraint", "dependency", "exclude", "gres", "name"), "x"
    ),
    **dict.fromkeys(("mem_per_cpu", "mem_per_gpu", "nodelist", "partition", "qos"), "2G"),
    **dict.fromkeys(("cpus_per_gpu", "cpus_per_task", "gpus_per_node", "gpus_per_task"), 4),
    **dict.fromkeys(("array_parallelism", "timeout_min"), 2),
    "additional_parameters": {"reservation": "r1"},
    "exclusive": False,
    "mem_gb": 0,  # all that the node has
    "setup": ["module load x"],
    "signal_delay_s": 0,
    "srun_args": ["--mpi=none"],
    "stderr_to_stdout": False,
}
"""A value of each option that submitit gets."""


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
        executor.update_parameters(**engine._parameters(4, "/path"))
        inner = executor._executor
        inner.parameters["map_count"] = 3
        return str(inner._make_submission_file_text("python work.py", "uid"))

    return call


@pytest.mark.filterwarnings('ignore:"cpus_per_gpu" requires')
def test_every_option_of_slurm_reaches_sbatch(script: Script) -> None:
    assert GIVEN.keys() == defaults().keys() - {*slurm.OWN}
    usual = script({})
    assert {name for name, value in GIVEN.items() if script({name: value}) == usual} == set()
    assert "#SBATCH --mem=0GB" in script({"mem_gb": 0})
    assert "#SBATCH --signal=USR2@0" in script({"signal_delay_s": 0})


@pytest.mark.parametrize(
    ("options", "exclusive"),
    [
        ({}, True),
        ({"gpus_per_node": 1}, False),
        ({"additional_parameters": {"gpus": 1}}, False),
        ({"exclusive": False}, False),
    ],
    ids=["on the CPU", "on a GPU", "on a GPU by another option", "beside others"],
)
def test_what_a_job_of_so_many_cases_gets(
    options: dict[str, Any], exclusive: bool, script: Script
) -> None:
    flags = {line.split()[1] for line in script(options).splitlines() if "#SBATCH" in line}
    assert {"--time=47", "--cpus-per-task=2", "--ntasks-per-node=1", "--requeue"} <= flags
    assert ("--exclusive" in flags) is exclusive


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("7_0 RUNNING\n7_1 PENDING\n", [None, None]),
        ("7_0 COMPLETED\n7_1 REQUEUED\n", ["COMPLETED", None]),
        ("\n7_0 NODE_FAIL\n", ["NODE_FAIL", "unknown to Slurm"]),
        (None, [None, None]),
    ],
    ids=["alive", "one requeued", "one forgotten", "no answer"],
)
def test_states_of_jobs(
    printed: str | None, expected: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\nexit 1" if printed is None else f"#!/bin/sh\necho '{printed}'")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [*slurm.Slurm(defaults(), 1, 1.0).states(["7_0", "7_1"]).values()] == expected
