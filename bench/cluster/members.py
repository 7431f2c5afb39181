"""Workers as they describe themselves, and whether the process of one still exists."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from modescope.bench.cluster.folder import Folder
from modescope.bench.records import leftovers
from modescope.bench.records.files import atomic_write
from modescope.bench.records.progress import one_line
from modescope.bench.records.scheduling import SLURM, scheduling

VARIABLE = "MODESCOPE_WORKER"
"""Set by an engine for the workers that it starts, JSON: scheduler and job of `Member`."""

SUBMITTED = "MODESCOPE_SUBMITTED"
"""Set by an engine: when it submitted the worker, in seconds since the epoch."""

BEAT_S = 15.0
SILENT_S = 300.0
"""A worker of another machine that no scheduler knows is lost after so long without a beat."""

RUNNING, PENDING, GONE = "running", "pending", "gone"

FINISHED, SIGNALLED = "finished", "ended by a signal"
"""Values of `Member.stopped` that say less than the scheduler does."""


@dataclass(frozen=True)
class State:
    """What is known of a job or a process."""

    kind: str  # running | pending | gone
    reason: str | None = None  # why it is gone, or waits for longer than usual, in a few words


@dataclass(frozen=True)
class Process:
    """A process, in such a way that another one with its number is told apart."""

    host: str
    boot: str | None  # changes when the machine is started; with the namespace of process ids
    pid: int
    began: str | None  # clock ticks since then

    @staticmethod
    def of(pid: int) -> Process:
        """A process of this machine."""
        return Process(socket.gethostname(), _boot(), pid, _began(pid))

    def state(self) -> State | None:
        """Whether it exists; None for a process of another machine."""
        if (self.host, self.boot) != (socket.gethostname(), _boot()):
            return None
        if self.began is None:  # no /proc
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return State(GONE, "its process ended")
            except PermissionError:
                pass
            return State(RUNNING)
        return (
            State(RUNNING) if _began(self.pid) == self.began else State(GONE, "its process ended")
        )


@dataclass(frozen=True)
class Member:
    """A worker; a restarted job is the same worker with a higher `restart`."""

    name: str
    process: Process
    scheduler: str | None = None  # local | slurm | ...; None: started by hand
    job: str | None = None  # as the scheduler names it
    restart: int = 0
    since: str = ""  # ISO 8601, UTC
    queue_wait_s: float | None = None  # from its submission until it started; None once restarted
    sentinel: bool | None = None  # whether it could be measured; None before that
    stopped: str | None = None  # why it ended in an orderly way; it writes no row after that
    failed: str | None = None  # the error by which it ended


def this() -> Member:
    """This process as a worker."""
    name_of_scheduler, job, restart = _scheduled()
    is_by_slurm = name_of_scheduler == SLURM
    rank = int(os.environ.get("SLURM_PROCID", 0)) if is_by_slurm else 0
    name = f"{name_of_scheduler}-{job}" if job else f"{socket.gethostname()}-{secrets.token_hex(4)}"
    return Member(
        name if rank == 0 else f"{name}.{rank}",
        Process.of(os.getpid()),
        name_of_scheduler,
        job,
        restart,
        datetime.now(UTC).isoformat(timespec="seconds"),
        None if restart else _queue_wait_s(),  # else it would include the earlier run
    )


def _queue_wait_s() -> float | None:
    submitted = os.environ.get(SUBMITTED)
    return max(0.0, time.time() - float(submitted)) if submitted else None


def _scheduled() -> tuple[str | None, str | None, int]:
    """Scheduler, job and restarts of this process; no scheduler if it was started by hand.

    That may have been within a job of Slurm, which goes on when the worker is killed.
    """
    if VARIABLE in os.environ:
        given = json.loads(os.environ[VARIABLE])
        return given["scheduler"], given["job"], given.get("restart", 0)
    if SUBMITTED not in os.environ:
        return None, None, 0
    found = scheduling()
    return found.scheduler, found.scheduler_job, found.restart or 0


def write(folder: Folder, member: Member) -> None:
    """Publishes the present state of a worker."""
    if folder.path.is_dir():
        with atomic_write(folder.part("workers") / f"{member.name}.json") as partial:
            partial.write_text(json.dumps(asdict(member)))


def update(folder: Folder, member: Member, **changes: Any) -> None:
    """Changes what is published of a worker; OSError where the folder or the disk fails."""
    known = one(folder, member.name)
    # else the job was started again while this process was taken for dead
    if known.process == member.process:
        write(folder, replace(known, **changes))


def every(folder: Folder) -> dict[str, Member]:
    """The workers that have joined the sweep, by name."""
    return {name: one(folder, name) for name in folder.names("workers")}


def one(folder: Folder, name: str) -> Member:
    """A worker that has joined."""
    return _member(folder.read("workers", name))


def _member(content: dict[str, Any]) -> Member:
    return Member(**{**content, "process": Process(**content["process"])})


class Heartbeat:
    """Within it, a worker is known to the folder, and its beat is written."""

    def __init__(self, folder: Folder, member: Member) -> None:
        self._folder, self._member = folder, member
        self.why = FINISHED  # the worker leaves, unless an error ends it
        self._beat = folder.part("workers") / f"{member.name}.beat"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> Heartbeat:
        write(self._folder, self._member)
        beat(self._beat)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        is_signal = isinstance(error, (SystemExit, KeyboardInterrupt))
        why = self.why if error is None else SIGNALLED if is_signal else one_line(error)
        is_orderly = not isinstance(error, Exception) or isinstance(error, OSError)
        stopped, failed = (why, None) if is_orderly else (None, why)
        with suppress(OSError):  # a full disk, or a folder that was removed: the driver finds out
            update(self._folder, self._member, stopped=stopped, failed=failed)

    def _go_on(self) -> None:
        while not self._ended.wait(BEAT_S):
            with suppress(OSError):
                beat(self._beat)


def beat(path: Path) -> None:
    """Sets the file's time to that of the machine that stores it."""
    path.write_bytes(b".")


def is_silent(folder: Folder, member: Member) -> bool:
    """Whether a worker has not written its beat for long.

    Compared with a file that is written now, so clocks that differ between machines do no harm.
    """
    try:
        age_s = leftovers.age_s(folder.part("workers") / f"{member.name}.beat")
    except FileNotFoundError:  # it is just starting
        age_s = leftovers.age_s(folder.part("workers") / f"{member.name}.json")
    return age_s > SILENT_S


def state(folder: Folder, member: Member) -> State:
    """The state of a worker that no scheduler knows."""
    if found := member.process.state():
        return found
    if is_silent(folder, member):
        return State(GONE, f"no sign of life from {member.process.host} for {SILENT_S:g} s")
    return State(RUNNING)


def _boot() -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _began(pid: int) -> str | None:
    """Clock ticks from the start of the machine to that of a process; None where it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in "ZX" else words[19]
