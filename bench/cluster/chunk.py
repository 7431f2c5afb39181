"""A chunk: the cases of a sweep that one job, task or process measures, one after another.

Everything that depends on the machine is found out here, by the machine that measures: its devices,
sizes by device, refusals, and which earlier rows may be reused.
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
    log: Path  # absolute; of lines as in `Entry`
    working_folder: Path  # where the command was started, for relative paths and own models
    scheduler: str  # column of rows


@dataclass(frozen=True)
class Entry:
    """A line of a chunk's log, JSON: a case has a row, cannot be measured there, or has begun."""

    number: int
    run_id: str | None = None
    reused: bool = False
    mistake: str | None = None

    @property
    def finished(self) -> bool:
        """Whether it is not measured again by the same chunk."""
        return self.run_id is not None or self.mistake is not None


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
    return {entry.number: entry for entry in (Entry(**json.loads(line)) for line in lines)}


def measure_chunk(chunk: Chunk, job: str | None = None) -> None:
    """Measures the cases that are not finished in the chunk's log, each once.

    A chunk that is started again, after a requeue, goes on where it stopped; last with the case
    that it was measuring then, which may be what ended it. If this machine cannot measure one of
    the cases, the log says so of all, and none is measured. `job`: the scheduler's name of it;
    None: as Slurm's variables tell.
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
    plan = jobs[0].plan
    remove_abandoned(plan.study_folder / ROWS, plan.study_folder / "traces", Path(plan.results_dir))
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
        if row["status"] == "crashed":
            time.sleep(1.0)  # Slurm may be ending this process, too; then it is not finished
        _append(chunk.log, Entry(number, row["run_id"]))
        print(f"{row['run_id']}  {case.label}: {describe_end(row)}", flush=True)


def _append(log: Path, entry: Entry) -> None:
    """Adds a line in one write, which a kill cannot halve."""
    with log.open("ab", buffering=0) as file:
        file.write(f"{json.dumps(asdict(entry))}\n".encode())


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
