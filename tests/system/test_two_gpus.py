"""Two pretended GPUs of this machine, each with a process: `nvidia-smi` names them."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from tests.gpu.pretending import PRETENDED
from tests.helpers import commands
from tests.helpers.commands import TINY, Row, Started, rows, started, stored
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, soon

pytestmark = pytest.mark.full

NAMES = ("GPU-11111111-2222-3333-4444-555555555555", "GPU-22222222-3333-4444-5555-666666666666")

GPUS = ["-m", "cluster=gpus"]

SWEEP = [*TINY, *GPUS, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

finish = partial(commands.finish, within_s=300, gone_s=20)


@pytest.fixture(autouse=True)
def _gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    lines = [f"GPU {n}: NVIDIA H100 (UUID: {name})" for n, name in enumerate(NAMES)]
    smi.write_text("#!/bin/sh\ncat <<E\n" + "\n".join(lines) + "\nE\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{PRETENDED}{os.pathsep}{ROOT}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def workers(sweep: Started) -> list[int]:
    """The processes of its GPUs."""
    return [*{*alive(sweep.sign)} & {*alive("modescope.bench.cluster.gpus")}]


def assert_one_at_a_time(found: Sequence[Row]) -> None:
    """No two cases were on one GPU at once; both GPUs were used."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        begin = datetime.fromisoformat(row["started_at"]).timestamp()
        spans.setdefault(row["scheduler_job"], []).append((begin, begin + row["duration_s"]))
    assert set(spans) == set(NAMES)
    for of_gpu in spans.values():
        for before, after in itertools.pairwise(sorted(of_gpu)):
            assert before[1] <= after[0] + 0.01  # clocks of two kinds


def test_two_sweeps_at_once_share_both_gpus_and_are_reused_by_the_next(results: Path) -> None:
    studies = ("one", "two")
    for sweep in [started(results, [*SWEEP, f"study={study}"]) for study in studies]:
        answer = finish(sweep)
        assert answer.status == 0, answer
    found = [row for study in studies for row in rows(results, study)]
    assert [row["status"] for row in found] == ["ok"] * 24
    assert {(row["device"], row["scheduler"]) for row in found} == {("cuda", "gpus")}
    assert_one_at_a_time(found)

    again = finish(started(results, [*SWEEP, "study=one"]))
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results, "one")) == 12


def test_a_sweep_killed_again_and_again_ends_complete(results: Path) -> None:
    """Of the kills at drawn moments half are of the command, half of one of its processes."""
    moment = random.Random(20261126)
    arguments = [*TINY, *GPUS, "mode=eager,no_grad", "replicates=40"]
    for number in range(4):
        sweep = started(results, arguments)
        before = stored(results)
        assert soon(lambda: stored(results) > before, within_s=90)  # noqa: B023
        time.sleep(moment.uniform(0, 0.5))
        victim = moment.choice(workers(sweep)) if number % 2 else sweep.process.pid
        os.kill(victim, 9)
        answer = finish(sweep)
        assert answer.status == (1 if number % 2 else -9), answer
    answer = finish(started(results, arguments))
    assert answer.status == 0, answer
    found = rows(results)
    assert len({(row["case_id"], row["replicate"]) for row in found}) == len(found) == 80
