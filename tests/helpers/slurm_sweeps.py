"""Sweeps on Slurm as tests start them, and what their folders say while they are measured."""

from __future__ import annotations

from pathlib import Path

from modescope.bench.cluster import claims
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.folder import Folder
from tests.helpers.commands import TINY, Started, stored
from tests.helpers.processes import soon

SLURM = ["-m", "cluster=slurm", "cluster.partition=main"]

SWEEP = [*TINY, *SLURM, "mode=eager,no_grad,inference_mode", "shape.ops=1,2,3,4"]
"""12 cases."""

ONE_WORKER = [*TINY, *SLURM, "mode=eager", "replicates=4", "cluster.workers=1"]


def folder_of(results: Path) -> Folder:
    """The folder of the one sweep that was begun."""
    (path,) = (results / "main" / "jobs").iterdir()
    return Folder(path)


def await_claim(jobs: Folder, of: str = "") -> Claim:
    """A claim of a task that is being measured, of such a worker."""
    found: list[Claim] = []

    def look() -> bool:
        known = [claims.read(jobs, *one) for one in claims.open_claims(jobs)]
        found[:] = [claim for claim in known if claim.worker.startswith(of)]
        return bool(found)

    assert soon(look, within_s=60), (jobs.path, of)
    return found[0]


def await_row(results: Path, sweep: Started) -> Folder:
    """The sweep's folder, once a case of it was measured."""
    assert soon(lambda: stored(results) or sweep.process.poll() is not None, within_s=60)
    assert sweep.process.poll() is None, sweep.end()
    return folder_of(results)


def job_of(claim: Claim) -> str:
    """The job of the worker that has made a claim."""
    return claim.worker.removeprefix("slurm-")
