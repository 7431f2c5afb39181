"""Sweeps on Ray, which the command starts on this machine."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

import pytest

from modescope.bench.cluster import claims
from modescope.bench.cluster.folder import Folder
from tests.helpers.commands import TINY, Answer, Started, rows, started, stored
from tests.helpers.processes import alive, soon

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="needs Ray: pip install -e '.[ray]'"
    ),
]

RAY = ["-m", "cluster=ray", "cluster.workers=2"]

SWEEP = [*TINY, *RAY, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

END_S = 180
"""Longest time of a sweep; Ray itself takes 7 s to start."""


def ended(sweep: Started) -> Answer:
    out, err = sweep.process.communicate(timeout=END_S)
    assert soon(lambda: not alive(sweep.sign), within_s=30), "processes are left"
    return Answer(sweep.process.returncode, out, err)


def test_a_sweep_is_measured_by_two_workers_and_reused_by_the_next(results: Path) -> None:
    answer = ended(started(results, SWEEP))
    assert answer.status == 0, answer
    assert answer.out.startswith("12 cases on 2 workers of Ray → ")
    assert "Traceback" not in answer.err
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {row["scheduler"] for row in found} == {"ray"}
    assert len({row["worker"] for row in found}) == 2
    assert all(row["worker"] == f"ray-{row['scheduler_job']}" for row in found)
    assert all(row["queue_wait_s"] > 0 for row in found)
    # what Ray sets for its processes is undone: the environment is that of a case without it
    assert ended(started(results, [*TINY, "mode=eager", "shape.ops=1"])).status == 0
    assert len({row["environment_id"] for row in rows(results)}) == 1
    assert len(rows(results)) == 13

    again = ended(started(results, SWEEP))
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 13


def test_ctrl_c_ends_the_workers_and_the_same_command_continues(results: Path) -> None:
    sweep = started(results, SWEEP)
    assert soon(lambda: stored(results), within_s=90)
    sweep.process.send_signal(signal.SIGINT)
    answer = ended(sweep)
    assert answer.status == 130, answer
    assert "Traceback" not in answer.err
    (path,) = (results / "main" / "jobs").iterdir()
    assert claims.open_claims(Folder(path)) == []
    kept = {row["run_id"] for row in rows(results)}
    answer = ended(started(results, SWEEP))
    assert answer.status == 0, answer
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert kept < {row["run_id"] for row in found}


def test_more_gpus_than_ray_has_are_refused(results: Path) -> None:
    options = ["mode=eager", "cluster.remote.num_gpus=4"]
    answer = ended(started(results, [*TINY, *RAY, *options], CUDA_VISIBLE_DEVICES=""))
    assert answer.status == 2, answer
    said = "error: cluster.remote.num_gpus=4: Ray has 0 here; ask for fewer"
    assert said in answer.err
    assert not rows(results)
