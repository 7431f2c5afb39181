"""Cuts a sweep into chunks, gives them to an engine, and waits for their rows.

The command that submits resolves nothing that a device decides: a login node has none.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import modescope
from modescope.bench.cluster.chunk import Chunk, Entry, read_log, tasks
from modescope.bench.records.cases import Plan, short_hash
from modescope.bench.records.environment import DeviceFacts
from modescope.bench.resolve import Request, resolve
from modescope.bench.sweep.prepare import check_study
from modescope.bench.sweep.progress_bar import advance, progress_bar
from modescope.bench.sweep.sweep import Incomplete, Submission, join_rows

WORKERS = 8
"""Chunks of a sweep unless cluster.workers says how many."""

POLL_S = 2.0

JOBS = "jobs.json"
"""In the folder of a submission: the scheduler's ids of its chunks, in their order."""

LINK = "path"
"""Folder with a link to this modescope alone, for PYTHONPATH: a checkout holds more packages."""

States = Mapping[str, str | None]
"""Of jobs by their ids: how each ended, None while it waits or runs."""


class Engine(Protocol):
    """What runs `measure_chunk` elsewhere."""

    name: str  # as in cluster=NAME
    detaches: bool  # its jobs outlive the command

    def submit(self, chunks: Sequence[Chunk], folder: Path) -> list[str]:
        """Starts a job for each chunk; returns their ids. UsageError for options it refuses.

        `folder`: of this submission, for its files, with `LINK`.
        """

    def states(self, jobs: Sequence[str]) -> States:
        """How the jobs are."""

    def interrupt(self, jobs: Sequence[str]) -> None:
        """After Ctrl-C: ends the jobs, or says how to."""


def distribute(
    requests: Sequence[Request], engine: Engine, workers: int | None = None
) -> Submission | None:
    """Measures the cases in `workers` chunks; None with dry_run, when all was only shown.

    The same command waits for the jobs of an earlier one while one of them lives.
    """
    kept, plan = _checked(requests)
    settings, numbers = kept[0].settings, [*range(len(tasks(kept)))]
    if settings.order == "random":  # else a mode would be measured by one node alone
        random.Random(plan.seed).shuffle(numbers)
    count = min(workers or WORKERS, len(numbers))
    cases = "1 case" if len(numbers) == 1 else f"{len(numbers)} cases"
    where = f"{count} {'job' if count == 1 else 'jobs'} of cluster={engine.name}"
    print(f"{cases} in {where} → {plan.study_folder}", flush=True)
    if settings.dry_run:
        words = [" ".join(request.overrides) for request in kept]
        print("\n".join(["nothing was submitted; the cases:", *words]))
        return None
    logs = plan.study_folder.absolute() / "logs"
    same = short_hash({"engine": engine.name, "requests": [_content(each) for each in kept]})
    folder, jobs = _living(logs, same, engine)
    if not jobs:
        folder = logs / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{engine.name}-{same}"
        (folder / LINK).mkdir(parents=True, exist_ok=True)
        (folder / LINK / "modescope").symlink_to(Path(modescope.__file__).parent)
        chunks = [
            Chunk(
                tuple(kept),
                tuple(numbers[n::count]),
                folder / f"chunk-{n}.log",
                Path.cwd(),
                engine.name,
            )
            for n in range(count)
        ]
        jobs = engine.submit(chunks, folder)
        (folder / JOBS).write_text(json.dumps(jobs))
    print(f"output of the jobs → {folder}", flush=True)
    finished = _finished(kept, engine, folder, jobs)
    return Submission(plan.study_folder, len(numbers), finished, engine.detaches)


def needed(requests: Sequence[Request]) -> tuple[int, float]:
    """The largest number of threads, and the longest time in seconds, of a case."""
    every = [request.settings for request in requests]
    return max(each.threads for each in every), max(each.timeout_s for each in every)


def _checked(requests: Sequence[Request]) -> tuple[list[Request], Plan]:
    """The requests, of equal ones the first, and the plan of one; UsageError for a mistake.

    Sizes are only checked here, for some device.
    """

    def describe(name: str) -> DeviceFacts:
        return DeviceFacts("cpu" if name == "cpu" else "cuda", "a device of a node")

    found: dict[tuple[str, str, Plan], Request] = {}
    for request in requests:
        case, plan = resolve(request, describe)
        found.setdefault((case.case_id, request.settings.device, plan), request)
    plans = [plan for _, _, plan in found]
    check_study(plans)
    return [*found.values()], plans[0]


def _content(request: Request) -> dict[str, Any]:
    """What is measured, without the options of the engine, which change nothing of it."""
    return asdict(replace(request, settings=replace(request.settings, cluster={})))


def _living(logs: Path, same: str, engine: Engine) -> tuple[Path, list[str]]:
    """The newest submission of the same sweep and its jobs, none if all have ended."""
    for file in sorted(logs.glob(f"*-{engine.name}-{same}/{JOBS}"), reverse=True)[:1]:
        jobs: list[str] = json.loads(file.read_text())
        if engine.detaches and None in engine.states(jobs).values():
            print("waiting for the jobs of an earlier command, which keep their options")
            return file.parent, jobs
    return logs, []


def _finished(
    requests: Sequence[Request], engine: Engine, folder: Path, jobs: Sequence[str]
) -> Iterator[str]:
    """Run ids, each once its row is on disk; raises Incomplete where cases have none."""
    total, seen = len(tasks(requests)), dict[int, Entry]()
    try:
        with progress_bar(total, "case") as bar:
            ended = 0  # in so many looks one after another
            while len(seen) < total and ended < 3:  # files of other machines appear late
                for entry in _new_entries(folder, len(jobs), seen):
                    if entry.run_id:
                        yield entry.run_id
                    how = entry.mistake or ("reused" if entry.reused else "measured")
                    advance(bar, len(seen), f"{_name(requests, entry.number)}: {how}")
                states = engine.states(jobs)
                ended = 0 if None in states.values() else ended + 1
                bar.set_postfix(jobs=Counter(states.values())[None], refresh=True)
                time.sleep(POLL_S if len(seen) < total else 0)
    except KeyboardInterrupt:
        engine.interrupt(jobs)
        raise
    if reused := sum(entry.reused for entry in seen.values()):
        print(f"reusing {reused} of {total} cases; resume=false measures them again")
    join_rows(folder.parents[1] / "rows")
    mistakes = [entry.mistake for entry in seen.values() if entry.mistake]
    if mistakes:
        raise Incomplete(mistakes[0], refused=len(mistakes) == total)
    if len(seen) < total:
        raise Incomplete(_missing(requests, engine, jobs, seen))


def _new_entries(folder: Path, chunks: int, seen: dict[int, Entry]) -> Iterator[Entry]:
    for n in range(chunks):
        for entry in read_log(folder / f"chunk-{n}.log"):
            if entry.number not in seen:
                seen[entry.number] = entry
                yield entry


def _missing(
    requests: Sequence[Request], engine: Engine, jobs: Sequence[str], seen: Mapping[int, Entry]
) -> str:
    """Which cases have no row, and how the jobs ended."""
    rest = [n for n in range(len(tasks(requests))) if n not in seen]
    how = Counter(how for how in engine.states(jobs).values() if how)
    states = ", ".join(
        f"{count} {'job' if count == 1 else 'jobs'} {how}" for how, count in how.items()
    )
    names = ", ".join(dict.fromkeys(_name(requests, number) for number in rest[:5]))
    more = ", …" if len(rest) > 5 else ""
    return (
        f"{len(rest)} of {len(tasks(requests))} cases have no row ({states}): {names}{more}; "
        "the same command measures them"
    )


def _name(requests: Sequence[Request], number: int) -> str:
    """What of a case's overrides differs from those of other cases."""
    same = set.intersection(*(set(request.overrides) for request in requests))
    words = requests[tasks(requests)[number][0]].overrides
    return " ".join(word for word in words if word not in same) or " ".join(words)
