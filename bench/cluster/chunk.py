"""A chunk: the cases of a sweep that one job, task or process measures, one after another.

Everything that depends on the machine is found out here, by the machine that measures: its devices,
sizes by device, refusals, and which earlier rows may be reused.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from modescope.bench.records.environment import scheduling
from modescope.bench.records.errors import UsageError
from modescope.bench.records.files import remove_abandoned
from modescope.bench.records.rows import ROWS
from modescope.bench.resolve import Request
from modescope.bench.sweep.attempt import Place, attempt, describe_end
from modescope.bench.sweep.prepare import Job, prepare_each
from modescope.bench.sweep.resume import find_earlier


@dataclass(frozen=True)
class Chunk:
    """Some cases of a sweep, by their numbers in `tasks(requests)`, in the order of measuring."""

    requests: tuple[Request, ...]  # of the whole sweep: some modes are skipped beside others
    numbers: tuple[int, ...]
    log: Path  # absolute; a line for each finished case, see `Entry`
    working_folder: Path  # where the command was started, for relative paths and own models
    scheduler: str  # column of rows


@dataclass(frozen=True)
class Entry:
    """A line of a chunk's log: `<number> begun`, `<number> <run id>`, or that and ` reused`.

    `<number> error: <mistake>` instead if this machine cannot measure the case; it has no row.
    """

    number: int
    begun: bool = False  # and not finished
    run_id: str | None = None
    reused: bool = False
    mistake: str | None = None


def tasks(requests: Sequence[Request]) -> list[tuple[int, int]]:
    """The cases of a sweep, each as the position of its request and the replicate."""
    return [
        (position, replicate)
        for position, request in enumerate(requests)
        for replicate in range(request.settings.replicates)
    ]


def read_log(path: Path) -> dict[int, Entry]:
    """The last line of each case that a chunk has begun, by its number."""
    lines = path.read_text().split("\n")[:-1]  # what follows the last newline is half written
    return {entry.number: entry for entry in map(_entry, lines)}


def _entry(line: str) -> Entry:
    number, first, *rest = line.split(" ", 2)
    if first == "error:":
        return Entry(int(number), mistake=rest[0])
    if first == "begun":
        return Entry(int(number), begun=True)
    return Entry(int(number), run_id=first, reused=rest == ["reused"])


def measure_chunk(chunk: Chunk, job: str | None = None) -> None:
    """Measures the cases that are not finished in the chunk's log, each once.

    A chunk that is started again, after a requeue, goes on where it stopped; last with the case
    that it was measuring then, which may be what ended it. `job`: the scheduler's name of it; None:
    as Slurm's variables tell.
    """
    os.chdir(chunk.working_folder)
    log = read_log(chunk.log)
    left = [n for n in chunk.numbers if n not in log or log[n].begun]
    where, order = scheduling(chunk.scheduler, job=job), chunk.requests[0].settings.order
    jobs = _jobs(chunk, sorted(left, key=log.__contains__), where.node)
    if not jobs:
        return
    plan = next(iter(jobs.values())).plan
    remove_abandoned(plan.study_folder / ROWS, plan.study_folder / "traces", Path(plan.results_dir))
    taken = {entry.run_id for entry in log.values() if entry.run_id}
    reuses = find_earlier([*jobs.values()], chunk.requests[0], taken)
    missing: dict[int, Job] = {}
    for (number, case), reuse in zip(jobs.items(), reuses, strict=True):
        if reuse.run_id:
            _append(chunk.log, f"{number} {reuse.run_id} reused")
        else:
            missing[number] = case
            if reuse.why_not:
                print(f"measured again: {case.label}: {reuse.why_not}", flush=True)
    for number, case in missing.items():
        with _locks(case):
            _append(chunk.log, f"{number} begun")
            row = attempt(case, place=Place(order, chunk.numbers.index(number)), where=where)
        if row["status"] == "crashed":
            time.sleep(1.0)  # Slurm may be ending this process, too; then it is not finished
        _append(chunk.log, f"{number} {row['run_id']}")
        print(f"{row['run_id']}  {case.label}: {describe_end(row)}", flush=True)


def _jobs(chunk: Chunk, numbers: Sequence[int], node: str | None) -> dict[int, Job]:
    """What to measure, by number; the log says why this machine cannot measure the others."""
    every = tasks(chunk.requests)
    parts = prepare_each(chunk.requests, {every[number][0] for number in numbers})
    jobs = {}
    for number in numbers:
        position, replicate = every[number]
        part = parts[position]
        if isinstance(part, UsageError):
            _append(chunk.log, f"{number} error: {' '.join(str(part).split())} (on {node})")
        else:
            jobs[number] = part[replicate]
    return jobs


def _append(log: Path, line: str) -> None:
    """Adds a line in one write, which a kill cannot halve."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@contextmanager
def _locks(job: Job) -> Iterator[None]:
    """Waits until no other chunk on this machine uses the case's device.

    A case on the CPU has the node alone; cases on different GPUs share it. The files are locked by
    flock, in memory or /tmp and never on a shared drive, so a killed process holds none.
    """
    with ExitStack() as stack:
        on_cpu = job.case.device == "cpu"
        _lock(stack, "node", fcntl.LOCK_EX if on_cpu else fcntl.LOCK_SH)
        if not on_cpu:
            _lock(stack, f"gpu-{_gpu(job).replace('/', '_')}", fcntl.LOCK_EX)
        yield


def _lock(stack: ExitStack, name: str, kind: int) -> None:
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    folder = base / f"modescope-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)


def _gpu(job: Job) -> str:
    """The GPU's UUID, that of its part under MIG, or else Slurm's or CUDA's number of it."""
    variables = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
    visible, *by_slurm = [os.environ.get(name, "").partition(",")[0] for name in variables]
    if visible.startswith("MIG-"):
        return visible
    named = visible if visible.startswith("GPU-") else None
    # Slurm's own numbers count on the whole machine; those of CUDA may begin at 0 in every job
    known = (job.environment.gpu_uuid, named, *by_slurm, visible, job.case.device)
    return next(name for name in known if name)
