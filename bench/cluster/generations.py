"""The generations of a sweep: folders `<sweep>-<n>`, of which the latest counts.

A command attaches to a generation while workers of it live or wait. Otherwise it begins the next
one, whose workers decide anew which rows may be reused. What is not done in the generation before
is taken first, by claims, so that a worker of it that lives against all appearances begins nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from modescope.bench.cluster import claims, lost, states
from modescope.bench.cluster.claims import Claim
from modescope.bench.cluster.engine import Engine
from modescope.bench.cluster.folder import PARTS, Folder, Sweep
from modescope.bench.cluster.submissions import Submissions
from modescope.bench.cluster.work import work_of
from modescope.bench.records import leftovers

GENERATION = re.compile(r"([0-9a-f]{16})-(\d+)")

CLOSING = "closed"
"""In place of a worker's name in the claims that close a generation."""

POLL_S = 0.2


@dataclass(frozen=True)
class Joined:
    """A generation, and the workers or jobs of it that live or wait, by name."""

    folder: Folder
    living: tuple[str, ...] = ()


def joined(jobs: Path, name: str, sweep: Sweep, engine: Engine) -> Joined:
    """The latest generation of the sweep `name` in `jobs` if it is being measured, or a new one.

    Generations before the previous one are removed: a driver that has not noticed yet that its
    sweep is finished still reads that one.
    """
    for partial in jobs.glob(".*.partial"):
        if leftovers.is_abandoned(partial):
            shutil.rmtree(partial, ignore_errors=True)
    for number in _generations(jobs, name):
        Folder(jobs / f"{name}-{number}").clear()
    while True:
        known = sorted(_generations(jobs, name))
        if known:
            latest = Folder(jobs / f"{name}-{known[-1]}")
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if found := _continued(latest, sweep, engine):
                    return found
        number = known[-1] + 1 if known else 0
        if made := _made(jobs / f"{name}-{number}", sweep):
            for old in known[:-1]:
                shutil.rmtree(jobs / f"{name}-{old}", ignore_errors=True)
            return Joined(made)


def _continued(folder: Folder, sweep: Sweep, engine: Engine) -> Joined | None:
    """The generation, if it is to be continued; otherwise nothing of it is open any more."""
    if folder.is_finished(sweep):
        return None
    if not folder.is_closed():
        living = states.living(states.learn(folder, engine, Submissions(folder)))
        if living or not folder.names("claims"):  # without claims it is as good as new
            return Joined(folder, tuple(living))
    _close(folder, sweep, engine)
    return None


def _close(folder: Folder, sweep: Sweep, engine: Engine) -> None:
    """Ends all claims and takes all tasks that are free; can be repeated by several drivers."""
    folder.close()
    work, submissions, has_said = work_of(sweep), Submissions(folder), False
    while True:
        lost.end_claims(folder, work, states.learn(folder, engine, submissions))
        for task, number in claims.free(folder, sweep.names).items():
            claims.publish(folder, Claim(task, number, "", CLOSING, 0, "", None, None))
        opened = [claims.read(folder, *each) for each in claims.open_claims(folder)]
        workers = {claim.worker for claim in opened} & folder.names("workers")
        if not workers:
            return
        if not has_said:  # they have joined just now
            print(f"waiting for the case that {', '.join(sorted(workers))} measures", flush=True)
            has_said = True
        time.sleep(max(POLL_S, engine.pause_s))


def _generations(jobs: Path, name: str) -> Iterator[int]:
    for entry in os.listdir(jobs) if jobs.is_dir() else ():
        match = GENERATION.fullmatch(entry)
        if match and match[1] == name:
            yield int(match[2])


def _made(path: Path, sweep: Sweep) -> Folder | None:
    """A complete new folder; None where another driver was first."""
    partial = leftovers.partial(path)
    try:
        for part in PARTS:
            (partial / part).mkdir(parents=True)
        (partial / "requests.json").write_text(json.dumps(asdict(sweep)))
        partial.rename(path)  # fails where `path` is a folder with content
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if path.is_dir():
            return None
        raise
    return Folder(path)
