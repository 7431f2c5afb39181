"""Workers as jobs of Slurm: the script that sbatch gets, and what squeue and sacct say of them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modescope.bench.cluster import launch
from modescope.bench.cluster import slurm_engine as slurm
from modescope.bench.cluster.members import GONE, PENDING, RUNNING
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
    "gpus_per_node": (4, "#SBATCH --gpus-per-node=4"),
    "gpus_per_task": (1, "#SBATCH --gpus-per-task=1"),
    "gres": ("gpu:2", "#SBATCH --gres=gpu:2"),
    "mem_gb": (8, "#SBATCH --mem=8GB"),
    "mem_per_cpu": ("2G", "#SBATCH --mem-per-cpu=2G"),
    "mem_per_gpu": ("20G", "#SBATCH --mem-per-gpu=20G"),
    "name": ("mine", "#SBATCH --job-name=mine"),
    "nodelist": ("n7", "#SBATCH --nodelist=n7"),
    "nodes": (2, "#SBATCH --nodes=2"),
    "partition": ("gpu", "#SBATCH --partition=gpu"),
    "qos": ("high", "#SBATCH --qos=high"),
    "setup": (["module load x"], "module load x"),
    "signal_delay_s": (30, "#SBATCH --signal=USR2@30"),
    "srun_args": (["--mpi=none"], "srun --unbuffered --output .* --mpi=none python"),
    "stderr_to_stdout": (False, "#SBATCH --error=.*"),
    "tasks_per_node": (4, "#SBATCH --ntasks-per-node=4"),
    "timeout_min": (5, "#SBATCH --time=5"),
}
"""A value of each option that submitit gets, and the line of the script for sbatch, a pattern."""

OFTEN_ZERO = {
    "mem_gb": "#SBATCH --mem=0GB",  # all that the node has
    "signal_delay_s": "#SBATCH --signal=USR2@0",
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """What submitit hands to sbatch for the options, with three workers."""
    submitit = pytest.importorskip("submitit")
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))

    def call(options: dict[str, Any]) -> str:
        executor = submitit.AutoExecutor(tmp_path, cluster="slurm")
        executor.update_parameters(**slurm.parameters(options))
        inner = executor._executor
        inner.parameters["map_count"] = 3
        return str(inner._make_submission_file_text("python work.py", "uid"))

    return call


def has_line(text: str, pattern: str) -> bool:
    """Whether a line is that text, where `.*` stands for anything."""
    expected = ".*".join(map(re.escape, pattern.split(".*")))
    return any(re.match(expected, line) for line in text.splitlines())


def test_the_table_has_all_options_that_submitit_gets() -> None:
    assert GIVEN.keys() == defaults().keys()


@pytest.mark.filterwarnings('ignore:"cpus_per_gpu" requires')
@pytest.mark.parametrize("option", GIVEN)
def test_an_option_of_slurm_reaches_sbatch(option: str, script: Script) -> None:
    value, line = GIVEN[option]
    text = script({**defaults(), option: value})
    assert has_line(text, line), text


def defaults() -> dict[str, Any]:
    """The options where none is given."""
    options = preset("cluster", "cluster", "slurm")
    return {name: value for name, value in options.items() if name not in launch.OWN}


def test_without_options_sbatch_gets_only_what_has_a_default(script: Script) -> None:
    text = script(defaults())
    flags = {line.split("=")[0].split()[1] for line in text.splitlines() if "#SBATCH" in line}
    assert flags == {
        *("--array", "--job-name", "--nodes", "--ntasks-per-node", "--open-mode", "--output"),
        *("--requeue", "--signal", "--time", "--wckey"),
    }
    assert "False" not in text
    assert "None" not in text


@pytest.mark.parametrize("option", OFTEN_ZERO)
def test_zero_is_a_value(option: str, script: Script) -> None:
    assert has_line(script({option: 0}), OFTEN_ZERO[option])


@pytest.mark.parametrize(("variables", "cores"), [({}, ""), ({"SLURM_CPUS_PER_TASK": "4"}, "4")])
def test_srun_is_told_the_cores_per_task_only_where_sbatch_was(
    variables: dict[str, str], cores: str, script: Script
) -> None:
    lines = [line for line in script({}).splitlines() if "SRUN_CPUS_PER_TASK" in line]
    shell = ["set -eu", *lines, 'echo "${SRUN_CPUS_PER_TASK:-}"']
    path = {"PATH": os.environ["PATH"]}
    out = subprocess.check_output(["bash", "-c", "\n".join(shell)], env={**path, **variables})
    assert out.decode().strip() == cores


def test_workers_are_counted_by_the_tasks_of_their_jobs() -> None:
    assert slurm.tasks_per_job({}) == 1
    assert slurm.tasks_per_job({"nodes": 2, "tasks_per_node": 4}) == 8


@pytest.mark.parametrize(
    ("options", "further"),
    [
        ({}, {"requeue": True}),
        ({"reservation": "r1"}, {"reservation": "r1", "requeue": True}),
        ({"no-requeue": True}, {"no-requeue": True}),
    ],
)
def test_jobs_may_be_requeued_unless_the_user_says_no(
    options: dict[str, Any], further: dict[str, Any]
) -> None:
    named = slurm.parameters({"additional_parameters": options})
    assert named["slurm_additional_parameters"] == further


def test_an_option_that_is_false_is_left_out() -> None:
    assert "slurm_exclusive" not in slurm.parameters({"exclusive": False})
    assert slurm.parameters({"exclusive": True})["slurm_exclusive"] is True


def test_ctrl_c_does_not_end_sbatch() -> None:
    with slurm._without_ctrl_c():
        subprocess.run(["sh", "-c", "kill -INT $$"], check=True)
    ended = subprocess.run(["sh", "-c", "kill -INT $$"])
    assert ended.returncode == -signal.SIGINT


def test_within_a_job_workers_are_submitted_without_its_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    monkeypatch.setenv("SLURM_CPU_BIND", "mask_cpu:0x1")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with slurm._outside_of_jobs():
        assert "SLURM_CPU_BIND" in os.environ  # the user has set it
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with slurm._outside_of_jobs():
        assert {name for name in os.environ if name.startswith("SLURM")} == {"SLURM_CONF"}
    assert os.environ["SLURM_CPU_BIND"] == "mask_cpu:0x1"


SQUEUE = """
12_0 RUNNING None
12_1 PENDING Priority
12_2 NODE_FAIL NonZeroExitCode
12_4 PENDING PartitionTimeLimit
12_5 PENDING (launch failed requeued held)
"""


def test_states_are_those_of_squeue(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    answer = subprocess.CompletedProcess((), 0, SQUEUE, "")

    def run(*command: str) -> Any:
        asked.append(command)
        return answer if command[0] == "squeue" else None

    monkeypatch.setattr(slurm, "_run", run)
    found = slurm.Slurm({}).states(dict.fromkeys(f"12_{number}" for number in range(6)))
    kinds = [RUNNING, PENDING, GONE, GONE, PENDING, PENDING]
    assert [state.kind for state in found.values()] == kinds
    assert found["12_1"].reason is None
    assert found["12_4"].reason == "Slurm: PartitionTimeLimit"
    assert found["12_5"].reason == "Slurm: (launch failed requeued held)"
    assert found["12_2"].reason == "Slurm: NODE_FAIL"
    assert found["12_3"].reason == "Slurm does not know its job any more"
    assert asked[0][-1] == "12"


def test_of_accounts_only_the_end_of_a_job_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = "12_0|RUNNING\n12_1|CANCELLED by 0\n12_2|PENDING\n12_3|OUT_OF_MEMORY\n"
    answers = {
        "squeue": subprocess.CompletedProcess((), 1, "", "slurm_load_jobs error: Invalid job id"),
        "sacct": subprocess.CompletedProcess((), 0, accounts, ""),
    }
    monkeypatch.setattr(slurm, "_run", lambda *command: answers[command[0]])
    monkeypatch.setattr(shutil, "which", lambda name: name)
    found = slurm.Slurm({}).states(dict.fromkeys(f"12_{number}" for number in range(5)))
    assert found is not None
    assert {state.kind for state in found.values()} == {GONE}
    forgotten = "Slurm does not know its job any more"
    assert [state.reason for state in found.values()] == [
        *(forgotten, "Slurm: CANCELLED", forgotten, "Slurm: OUT_OF_MEMORY", forgotten),
    ]


@pytest.mark.parametrize(
    ("code", "error", "known"),
    [
        (1, "slurm_load_jobs error: Invalid job id specified", True),
        (1, "slurm_load_jobs error: Unable to contact slurm controller", False),
    ],
)
def test_a_controller_that_does_not_answer_is_no_lost_job(
    code: int, error: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = subprocess.CompletedProcess((), code, "", error)
    monkeypatch.setattr(slurm, "_run", lambda *command: answer)
    found = slurm.Slurm({}).states({"12_0": None})
    assert (found is not None) == known
