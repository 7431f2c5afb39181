"""Sweeps on Ray, which the command starts on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.helpers import commands
from tests.helpers.commands import TINY, rows, started, stored
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

finish = partial(commands.finish, within_s=240, gone_s=30)  # Ray itself takes 7 s to start


def test_a_sweep_is_measured_by_two_tasks_and_reused_by_the_next(results: Path) -> None:
    answer = finish(started(results, SWEEP))
    assert answer.status == 0, answer
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {row["scheduler"] for row in found} == {"ray"}
    assert len({row["scheduler_job"] for row in found}) == 2
    # what Ray sets for its processes is undone: the environment is that of a case without it
    assert finish(started(results, [*TINY, "mode=eager", "shape.ops=1"])).status == 0
    assert len({row["environment_id"] for row in rows(results)}) == 1
    assert len(rows(results)) == 13

    again = finish(started(results, SWEEP))
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 13


@pytest.mark.parametrize("killed", ["command", "task"])
def test_the_same_command_continues(killed: str, results: Path) -> None:
    sweep = started(results, SWEEP)
    assert soon(lambda: stored(results), within_s=90)
    if killed == "command":
        sweep.process.send_signal(signal.SIGINT)
    else:
        os.kill(next(iter(alive("ray::measure"))), signal.SIGKILL)
    answer = finish(sweep)
    assert answer.status == (130 if killed == "command" else 1), answer
    kept = {row["run_id"] for row in rows(results)}
    assert len(kept) < 12
    answer = finish(started(results, SWEEP))
    assert answer.status == 0, answer
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert kept < {row["run_id"] for row in found}


def test_more_gpus_than_ray_has_are_refused(results: Path) -> None:
    options = ["mode=eager", "cluster.remote.num_gpus=4"]
    answer = finish(started(results, [*TINY, *RAY, *options], CUDA_VISIBLE_DEVICES=""))
    assert answer.status == 2, answer
    assert "error: cluster.remote.num_gpus=4: Ray has 0 here" in answer.err
