"""What the environment variables of a scheduler's job say of its runs."""

from __future__ import annotations

import socket

import pytest

from modescope.bench.records.environment import Scheduling, scheduling

HOST = socket.gethostname()
JOB = {"SLURM_JOB_ID": "1239", "SLURMD_NODENAME": "n1"}
TASK = {**JOB, "SLURM_ARRAY_JOB_ID": "1234", "SLURM_ARRAY_TASK_ID": "5"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Scheduling(node=HOST)),
        (JOB, Scheduling("n1", "slurm", "1239", 0)),
        (TASK, Scheduling("n1", "slurm", "1234_5", 0)),
        ({**TASK, "SLURM_RESTART_COUNT": "2"}, Scheduling("n1", "slurm", "1234_5", 2)),
        ({"SLURM_JOB_ID": "7"}, Scheduling(HOST, "slurm", "7", 0)),  # on the submitting machine
    ],
    ids=["none", "job", "task of an array", "restarted", "no node"],
)
def test_slurm_names_node_and_job(variables: dict[str, str], expected: Scheduling) -> None:
    assert scheduling(variables=variables) == expected


def test_another_scheduler_within_a_job_of_slurm_names_its_own_job() -> None:
    assert scheduling("ray", job="task-3", variables=TASK) == Scheduling("n1", "ray", "task-3")
    assert scheduling("gpus", variables=TASK) == Scheduling("n1", "gpus")
