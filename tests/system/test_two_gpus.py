"""Two pretended GPUs of this machine, each with a worker: `nvidia-smi` names them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.helpers.commands import TINY, Answer, Started, rows, started
from tests.helpers.paths import ROOT
from tests.helpers.processes import alive, soon

pytestmark = pytest.mark.full

PRETENDED = ROOT / "tests" / "helpers" / "pretended"
NAMES = ("GPU-11111111", "GPU-22222222")

LOCAL = ["-m", "cluster=gpus", "device=cuda"]

SWEEP = [*TINY, *LOCAL, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

END_S = 180

Places = dict[int, tuple[str, frozenset[int]]]
"""Processes of workers, each with its GPU and its cores."""


@pytest.fixture(autouse=True)
def _gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\nprintf '%s\\n' " + " ".join(NAMES) + "\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", f"{PRETENDED}{os.pathsep}{ROOT}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def watched(*sweeps: Started) -> tuple[list[Answer], Places]:
    """The ends of commands, and where their workers were."""
    places: Places = {}

    def look() -> bool:
        for sweep in sweeps:
            for pid in alive(sweep.sign):
                places.update(_place(pid))
        return all(sweep.process.poll() is not None for sweep in sweeps)

    assert soon(look, within_s=END_S)
    answers = [sweep.end() for sweep in sweeps]
    assert soon(lambda: not any(alive(sweep.sign) for sweep in sweeps)), "processes are left"
    return answers, places


def _place(pid: int) -> Iterator[tuple[int, tuple[str, frozenset[int]]]]:
    folder = Path("/proc") / str(pid)
    try:
        if b"modescope.bench.worker" not in (folder / "cmdline").read_bytes():
            return
        variables = (folder / "environ").read_text().split("\0")
        gpus = [each.partition("=")[2] for each in variables if each.startswith("CUDA_VIS")]
        yield pid, ("".join(gpus), frozenset(os.sched_getaffinity(pid)))
    except OSError:  # it has just ended
        return


def of_workers(jobs: Path, places: Places) -> dict[str, tuple[str, frozenset[int]]]:
    """The places of a sweep's workers, by name."""
    workers = (jobs / "workers").glob("*.json")
    return {path.stem: places[json.loads(path.read_text())["process"]["pid"]] for path in workers}


def assert_one_at_a_time(results: Path, places: Places) -> None:
    """No two cases were on one GPU at once, of all sweeps; both GPUs were used."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for jobs in results.glob("*/jobs/*"):
        workers = {name: gpu for name, (gpu, _) in of_workers(jobs, places).items()}
        for path in (jobs / "claims").glob("*.json"):
            claim = json.loads(path.read_text())
            begin = datetime.fromisoformat(claim["since"]).timestamp()
            end = (jobs / "done" / f"{claim['task']}.json").stat().st_mtime
            spans.setdefault(workers[claim["worker"]], []).append((begin, end))
    assert set(spans) == set(NAMES)
    for of_gpu in spans.values():
        for before, after in itertools.pairwise(sorted(of_gpu)):
            assert before[1] <= after[0] + 0.01  # claims are written in milliseconds


@pytest.mark.parametrize("gpus", ["all", "[0,GPU-22222222]"])
def test_a_sweep_uses_both_gpus_and_is_reused_by_the_next(results: Path, gpus: str) -> None:
    arguments = [*SWEEP, f"cluster.gpus={gpus}"]
    (answer,), places = watched(started(results, arguments))
    assert answer.status == 0, answer
    assert answer.out.startswith("12 cases on 2 workers on this machine → ")
    found = rows(results)
    assert [row["status"] for row in found] == ["ok"] * 12
    assert {(row["device"], row["scheduler"]) for row in found} == {("cuda", "local")}
    assert len({row["worker"] for row in found}) == 2
    (jobs,) = (results / "main" / "jobs").iterdir()
    (one, other) = of_workers(jobs, places).values()
    assert {one[0], other[0]} == set(NAMES)
    assert os.cpu_count() == 1 or not one[1] & other[1]
    assert_one_at_a_time(results, places)

    (again,), _ = watched(started(results, arguments))
    assert again.status == 0, again
    assert "reusing 12 of 12 cases" in again.out
    assert len(rows(results)) == 12


def test_two_sweeps_at_once_share_the_gpus(results: Path) -> None:
    sweeps = [
        started(results, [*SWEEP, "cluster.gpus=all", f"study={study}"]) for study in ("one", "two")
    ]
    answers, places = watched(*sweeps)
    assert [answer.status for answer in answers] == [0, 0], answers
    assert [len(rows(results, study)) for study in ("one", "two")] == [12, 12]
    assert_one_at_a_time(results, places)
