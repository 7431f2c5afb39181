"""Measures a chunk: the cases of a sweep that one process measures one after another.

This code runs on the machine that measures, and finds out what depends on that machine: devices,
sizes by device, refused cases, and which earlier rows can be reused.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from modescope.bench.records.environment import scheduling
from modescope.bench.records.errors import UsageError
from modescope.bench.records.outcomes import Status
from modescope.bench.resolve import Request
from modescope.bench.sweep.attempt import Place, attempt, describe_end, remove_abandoned_files
from modescope.bench.sweep.prepare import Job, prepare_each
from modescope.bench.sweep.resume import find_earlier


@dataclass(frozen=True)
class Chunk:
    """The cases of a sweep that one process measures."""

    requests: tuple[
        Request, ...
    ]  # of the whole sweep, because some modes are skipped beside others
    numbers: tuple[int, ...]  # of the cases in `tasks(requests)`, in the order of measuring
    log: Path  # absolute; each line is an `Entry`
    working_folder: Path  # where the command was started: relative paths and own models are there
    scheduler: str  # value of the column `scheduler`


@dataclass(frozen=True)
class Entry:
    """A line of a chunk's log (JSON): what is known of one case.

    Without `run_id` and `mistake` it says that the measurement of the case has begun.
    """

    number: int  # of the case in `tasks(requests)`
    run_id: str | None = None  # of the row
    reused: bool = False  # whether the row is an earlier one
    mistake: str | None = None  # why the case cannot be measured on that machine

    @property
    def finished(self) -> bool:
        """Whether the chunk leaves the case out if it is started again."""
        return self.run_id is not None or self.mistake is not None


def tasks(requests: Sequence[Request]) -> list[tuple[int, int]]:
    """Returns every case of a sweep as (position of its request, replicate).

    The index of a case in this list is called its number.
    """
    return [
        (position, replicate)
        for position, request in enumerate(requests)
        for replicate in range(request.settings.replicates)
    ]


def read_log(path: Path) -> dict[int, Entry]:
    """Returns the last log entry of each case that has one; the keys are the cases' numbers."""
    lines = path.read_text().split("\n")[:-1]  # what follows the last newline is half written
    return {entry.number: entry for entry in (Entry(**json.loads(line)) for line in lines)}


def measure_chunk(chunk: Chunk, job: str | None = None) -> None:
    """Measures each case that the chunk's log does not list as finished, and logs the result.

    A chunk that is requeued continues where it stopped. The case that was being measured then comes
    last, because it may be what ended the chunk. If this machine cannot measure one of the cases,
    none is measured, and each gets a log entry that says so. `job` is the scheduler's name of this
    job; if it is None, the name is read from Slurm's variables.
    """
    os.chdir(chunk.working_folder)
    log, every = read_log(chunk.log), tasks(chunk.requests)
    left = [n for n in chunk.numbers if n not in log or not log[n].finished]
    if not left:
        return
    where, order = scheduling(chunk.scheduler, job=job), chunk.requests[0].settings.order
    try:
        prepared = prepare_each(chunk.requests, {every[number][0] for number in left})
    except UsageError as error:
        for number in left:
            mistake = f"{' '.join(str(error).split())} (on {where.node})"
            _append(chunk.log, Entry(number, mistake=mistake))
        return
    left.sort(key=log.__contains__)
    jobs = [prepared[position][replicate] for position, replicate in (every[n] for n in left)]
    remove_abandoned_files(jobs[0].plan)
    taken = {entry.run_id for entry in log.values() if entry.run_id}
    reuses = find_earlier(jobs, chunk.requests[0], taken)
    for number, reuse in zip(left, reuses, strict=True):
        if reuse.run_id:
            _append(chunk.log, Entry(number, reuse.run_id, reused=True))
    for number, case, reuse in zip(left, jobs, reuses, strict=True):
        if reuse.run_id:
            continue
        if reuse.why_not:
            print(f"measured again: {case.label}: {reuse.why_not}", flush=True)
        with _locks(case):
            _append(chunk.log, Entry(number))
            row = attempt(case, place=Place(order, chunk.numbers.index(number)), where=where)
        if row["status"] == Status.CRASHED:
            time.sleep(1.0)  # Slurm may be ending this process, too; then it is not finished
        _append(chunk.log, Entry(number, row["run_id"]))
        print(f"{row['run_id']}  {case.label}: {describe_end(row)}", flush=True)


def _append(log: Path, entry: Entry) -> None:
    """Appends `entry` in a single write, so that a kill cannot leave half of a line."""
    with log.open("ab", buffering=0) as file:
        file.write(f"{json.dumps(asdict(entry))}\n".encode())


@contextmanager
def _locks(job: Job) -> Iterator[None]:
    """Waits until no other chunk on this machine uses the device of `job`, and reserves it.

    A case on the CPU gets the whole machine; cases on different GPUs run at the same time. The
    locks are files in /dev/shm or /tmp, locked by flock, so a killed process releases them.
    """
    with ExitStack() as stack:
        on_cpu = job.case.device == "cpu"
        _lock(stack, "node", fcntl.LOCK_EX if on_cpu else fcntl.LOCK_SH)
        if not on_cpu:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
            part = visible if visible.startswith("MIG-") else None
            gpu = part or job.environment.gpu_uuid or visible or job.case.device
            _lock(stack, f"gpu-{gpu.replace('/', '_')}", fcntl.LOCK_EX)
        yield


def _lock(stack: ExitStack, name: str, kind: int) -> None:
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())
    folder = base / f"modescope-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, kind)
