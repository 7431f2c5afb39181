"""Sweeps on Slurm as tests start them, and what their folders say while they are measured."""

from __future__ import annotations

import json
from pathlib import Path

from tests.helpers.commands import TINY, Answer, Started, started, stored
from tests.helpers.processes import soon
from tests.helpers.slurm import Slurm

SLURM = ["-m", "cluster=slurm", "cluster.partition=main"]

SWEEP = [*TINY, *SLURM, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

ONE_JOB = [*TINY, *SLURM, "mode=eager", "replicates=6", "cluster.workers=1"]

END_S = 400
"""Longest time of a sweep beside other work: a job may be started several times."""


def submissions(results: Path) -> list[Path]:
    """The folders of what was submitted, oldest first."""
    files = (results / "main" / "logs").glob("*-slurm-*/jobs.json")
    return sorted(file.parent for file in files)


def await_row(results: Path, sweep: Started) -> str:
    """The first job of the newest submission, once a row was written since the call."""
    before = stored(results)
    assert soon(lambda: stored(results) > before or sweep.process.poll() is not None, within_s=90)
    assert sweep.process.poll() is None, sweep.end()
    return str(json.loads((submissions(results)[-1] / "jobs.json").read_text())[0])


def end(sweep: Started) -> Answer:
    """What a command printed until its end."""
    out, err = sweep.process.communicate(timeout=END_S)
    assert "Traceback" not in err, err
    return Answer(sweep.process.returncode, out, err)


def sweep_again(slurm: Slurm, results: Path, arguments: list[str]) -> Answer:
    """The same command after the jobs of the first have ended."""
    assert soon(lambda: not slurm.queue(), within_s=60)
    return end(started(results, arguments))
