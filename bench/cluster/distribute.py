"""Divides a sweep into chunks, gives them to an engine, and waits for their rows.

The command that submits may run on a login node without a GPU, so it leaves all that depends on the
device to the chunks.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Protocol

import modescope
from modescope.bench.cluster.chunk import Chunk, Entry, read_log, tasks
from modescope.bench.records.cases import short_hash
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.records.files import atomic_write
from modescope.bench.records.plans import Plan
from modescope.bench.records.rows import ROWS
from modescope.bench.resolve import Request, resolve
from modescope.bench.sweep.prepare import check_study
from modescope.bench.sweep.progress_bar import advance, progress_bar
from modescope.bench.sweep.sweep import Incomplete, Submission, join_rows

WORKERS = 8
"""Number of chunks if cluster.workers is not set."""

POLL_S = 2.0

JOBS = "jobs.json"
"""File in the folder of a submission that lists the scheduler's ids of its jobs, in the order of
the chunks."""

States = Mapping[str, str | None]
"""Maps the id of a job to how the job ended, or to None while the job waits or runs."""


class Engine(Protocol):
    """The interface to a scheduler that runs chunks as jobs; each job calls `measure_chunk`.

    A new engine is a class like this, a function that submits with it, a line of `ENGINES` in
    bench/sweep/sweep.py, and a file in conf/cluster/.
    """

    name: str  # as in cluster=NAME
    detaches: bool  # whether jobs go on when the command ends

    def submit(self, chunks: Sequence[Chunk], folder: Path, path: str) -> list[str]:
        """Starts a job for each chunk, and returns the ids of the jobs.

        The engine writes its files to `folder`. `path` is the PYTHONPATH that the jobs need. Raises
        UsageError if the scheduler refuses the options.
        """

    def states(self, jobs: Sequence[str]) -> States:
        """Maps each of `jobs` to a text that says how it ended, or to None if it waits or runs."""


def distribute(
    requests: Sequence[Request], engine: Engine, workers: int | None = None
) -> Submission | None:
    """Submits the cases in `workers` chunks (None: WORKERS); returns None with dry_run.

    If an equal command was submitted earlier and one of its jobs still waits or runs, nothing new
    is submitted, and the earlier submission is returned.
    """
    kept, alike, plan = _group(requests)
    settings, total = kept[0].settings, len(tasks(kept))
    count = min(workers or WORKERS, len(alike))
    print(f"{total} case(s) in {count} job(s) of cluster={engine.name} → {plan.study_folder}")
    if settings.dry_run:
        words = [" ".join(request.overrides) for request in kept]
        print("\n".join(["nothing was submitted; the cases:", *words]))
        return None
    logs = plan.study_folder.absolute() / "logs"
    # the options of the engine change nothing of what is measured
    measured = [
        replace(request, settings=replace(request.settings, cluster={})) for request in kept
    ]
    same = short_hash({"engine": engine.name, "requests": [*map(asdict, measured)]})
    folder, jobs = _find_living(logs, same, engine, total)
    if not jobs:
        folder = logs / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{engine.name}-{same}"
        if settings.order == "random":  # else a mode would be measured by one node alone
            random.Random(f"{plan.seed} {folder.name}").shuffle(alike)
        link = folder / "path"  # to this modescope alone: a checkout holds more packages
        link.mkdir(parents=True)
        (link / "modescope").symlink_to(Path(modescope.__file__).parent)
        chunks = [
            Chunk(
                tuple(kept),
                tuple(chain(*alike[n::count])),
                folder / f"chunk-{n}.log",
                Path.cwd(),
                engine.name,
            )
            for n in range(count)
        ]
        for chunk in chunks:
            chunk.log.touch()  # NFS remembers for long that a file was missing
        path = os.pathsep.join(filter(None, (str(link), os.environ.get("PYTHONPATH"))))
        jobs = engine.submit(chunks, folder, path)
        with atomic_write(folder / JOBS) as file:
            file.write_text(json.dumps(jobs))
    print(f"jobs {' '.join(jobs)}, their files → {folder}", flush=True)
    finished = _wait(kept, engine, folder, jobs)
    return Submission(plan.study_folder, total, finished, engine.detaches)


def require_gpus(requests: Sequence[Request]) -> list[Request]:
    """Returns `requests` with device=cuda for auto: a job without a GPU must not use its CPU."""
    return [
        replace(request, settings=replace(request.settings, device="cuda"))
        if request.settings.device == "auto"
        else request
        for request in requests
    ]


def largest_needs(requests: Sequence[Request]) -> tuple[int, float]:
    """Returns the largest number of threads and the largest timeout in seconds of `requests`."""
    every = [request.settings for request in requests]
    return max(asked.threads for asked in every), max(asked.timeout_s for asked in every)


def _group(requests: Sequence[Request]) -> tuple[list[Request], list[list[int]], Plan]:
    """Returns the distinct requests, their cases in groups of equal ones, and the first plan.

    A group lists the numbers (indexes into `tasks`) of equal cases, such as those of several seeds.
    A group stays in one chunk, so that no two of its cases reuse the same row. The plan serves only
    for the study's folder and the seed of the shuffle.
    """

    def describe(name: str) -> DeviceFacts:
        return DeviceFacts("cpu" if name == "cpu" else "cuda", "a device of a node")

    found: dict[tuple[str, str, Plan], Request] = {}
    for request in requests:
        case, plan = resolve(request, describe)
        found.setdefault((case.case_id, request.settings.device, plan), request)
    kept, keys = [*found.values()], [*found]
    check_study(plan for _, _, plan in keys)
    alike: dict[tuple[str, str, int], list[int]] = {}
    for number, (position, replicate) in enumerate(tasks(kept)):
        alike.setdefault((*keys[position][:2], replicate), []).append(number)
    return kept, [*alike.values()], keys[0][2]


def _find_living(logs: Path, same: str, engine: Engine, total: int) -> tuple[Path, list[str]]:
    """Returns the folder and jobs of the last submission of the same command, if a job still runs.

    `same` is the hash of that command. Returns (`logs`, []) if there is no such submission, if all
    its `total` cases are finished, or if all its jobs have ended.
    """
    for file in sorted(logs.glob(f"*-{engine.name}-{same}/{JOBS}"), reverse=True)[:1]:
        jobs: list[str] = json.loads(file.read_text())
        left = len(_entries(file.parent)) < total
        if engine.detaches and left and None in engine.states(jobs).values():
            print("waiting for the jobs of an earlier command, which keep their options")
            return file.parent, jobs
    return logs, []


def _entries(folder: Path) -> dict[int, Entry]:
    logs = map(read_log, folder.glob("chunk-*.log"))
    return {n: entry for log in logs for n, entry in log.items() if entry.finished}


def _wait(
    requests: Sequence[Request], engine: Engine, folder: Path, jobs: Sequence[str]
) -> Iterator[str]:
    """Yields each run id once its row is on disk; raises Incomplete if a case gets no row."""
    cases, seen = tasks(requests), dict[int, Entry]()
    total = len(cases)
    common = set.intersection(*(set(request.overrides) for request in requests))
    ended = 0  # in so many looks one after another
    with progress_bar(total, "case") as bar:
        while len(seen) < total and ended < 3:  # lines of other machines appear late
            new = {n: each for n, each in _entries(folder).items() if n not in seen}
            for number, entry in new.items():
                seen[number] = entry
                if entry.run_id:
                    yield entry.run_id
                words = requests[cases[number][0]].overrides
                name = " ".join([word for word in words if word not in common] or words)
                how = entry.mistake or ("reused" if entry.reused else "measured")
                advance(bar, len(seen), f"{name}: {how}")
            states = engine.states(jobs)
            ended = 0 if None in states.values() else ended + 1
            bar.set_postfix(jobs=Counter(states.values())[None], refresh=True)
            time.sleep(POLL_S if len(seen) < total else 0)
    if reused := sum(entry.reused for entry in seen.values()):
        print(f"reusing {reused} of {total} cases; resume=false measures them again")
    measured = any(entry.run_id for entry in seen.values())
    if measured:
        join_rows(folder.parents[1] / ROWS)
    faults = list(dict.fromkeys(entry.mistake for entry in seen.values() if entry.mistake))
    refused = not measured and len(seen) == total
    if len(seen) < total:
        counts = Counter(how for how in engine.states(jobs).values() if how).items()
        faults.append(
            f"{total - len(seen)} of {total} cases have no row (jobs: "
            f"{', '.join(f'{count} {how}' for how, count in counts)}); the same command measures "
            "them"
        )
    if faults:
        raise Incomplete("; ".join(faults), refused)
