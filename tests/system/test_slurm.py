"""Sweeps on a real Slurm with two nodes, which share this machine's cores: no test compares times."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.commands import TINY, rows, started
from tests.helpers.slurm import NODES, Slurm

SLURM = ["hydra/launcher=submitit_slurm", "hydra.launcher.partition=main"]

SWEEP = [*TINY, "-m", *SLURM, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""


def test_a_sweep_is_measured_on_both_nodes_and_reused_by_the_next(
    slurm: Slurm, tmp_path: Path
) -> None:
    answer = started(tmp_path, SWEEP).end()
    print(answer.out, answer.err)
    assert answer.status == 0
    assert answer.out.startswith("12 cases on 8 workers of Slurm (partition main) → ")
    stored = rows(tmp_path)
    assert [row["status"] for row in stored] == ["ok"] * 12
    assert {row["node"] for row in stored} == set(NODES)
    assert {row["scheduler"] for row in stored} == {"slurm"}
    assert all(row["worker"] == f"slurm-{row['scheduler_job']}" for row in stored)
    assert all(row["restart"] == 0 and row["queue_wait_s"] > 0 for row in stored)
    assert answer.out.count("inference_mode") == 4  # a table
    assert slurm.queue() == []

    again = started(tmp_path, SWEEP).end()
    assert (again.status, again.err) == (0, "")
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(tmp_path)) == 12
