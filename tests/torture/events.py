"""What happens to a sweep at random moments. Each event says what it did, or None: nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.torture import disk, scene, spool
from tests.torture.stage import READY_S, Stage, make_writable, running_jobs

SHORT_S, LONG_S = 0.3, 3.0
"""Least and longest time that a disturbance lasts."""


@dataclass(frozen=True)
class Event:
    """How likely it is beside others, and where it is possible."""

    happen: Callable[[Stage], str | None]
    weight: int
    engines: tuple[str, ...] = ("spool", "local")
    needs: str = ""  # disk | hosts


def _span(stage: Stage) -> float:
    return stage.draw.uniform(SHORT_S, LONG_S)


def _kill_worker(stage: Stage) -> str | None:
    return _signalled(stage, signal.SIGKILL)


def _terminate_worker(stage: Stage) -> str | None:
    return _signalled(stage, signal.SIGTERM)


def _signalled(stage: Stage, number: signal.Signals) -> str | None:
    pid = stage.worker()
    if pid is None:
        return None
    stage.signal(pid, number)
    return number.name


def _stop_worker(stage: Stage) -> str | None:
    pid = stage.worker()
    if pid is None:
        return None
    span = _span(stage)
    stage.signal(pid, signal.SIGSTOP)
    stage.after(span, lambda: stage.signal(pid, signal.SIGCONT), late=True)
    return f"for {span:.1f} s"


def _requeued(stage: Stage, number: signal.Signals) -> str | None:
    """A node dies, or only its network; the scheduler starts the job on another one."""
    known = running_jobs(stage.place)
    if not known:
        return None
    name = stage.draw.choice(known)
    job = spool.read(stage.place, name)
    if job is None:
        return None
    pid = job["process"][0]
    stage.signal(pid, number)
    if number == signal.SIGSTOP:
        span = _span(stage)
        stage.after(span, lambda: stage.signal(pid, signal.SIGCONT), late=True)
    spool.start(stage.place, Path(job["folder"]), name, job["restart"] + 1)
    return name


def _kill_driver(stage: Stage) -> str | None:
    return _driver_signalled(stage, signal.SIGKILL, -signal.SIGKILL)


def _interrupt_driver(stage: Stage) -> str | None:
    return _driver_signalled(stage, signal.SIGINT, 128 + signal.SIGINT)


def _terminate_driver(stage: Stage) -> str | None:
    return _driver_signalled(stage, signal.SIGTERM, 128 + signal.SIGTERM)


def _driver_signalled(stage: Stage, number: signal.Signals, status: int) -> str | None:
    running = stage.running()
    if not running:
        return None
    command = stage.draw.choice(running)
    stage.wait(READY_S, lambda: command.is_ready() or command.process.poll() is not None)
    # a command that has said its last word dies by the signal itself, as every Python program
    command.allowed |= {status, -number}
    command.process.send_signal(number)
    if scene.scene(stage.place).engine == "local":
        stage.workers_disturbed()
    return number.name


def _another_driver(stage: Stage) -> str | None:
    if len(stage.running()) >= 3:
        return None
    stage.start()
    return ""


def _scheduler_down(stage: Stage) -> str | None:
    down, span = stage.place / "down", _span(stage)
    down.touch()
    stage.after(span, lambda: down.unlink(missing_ok=True))
    return f"for {span:.1f} s"


def _forget(stage: Stage) -> str | None:
    """The scheduler's daemon was killed and has lost its state; its jobs go on."""
    known = spool.jobs(stage.place)
    stage.workers_disturbed()
    for name in known:
        (stage.place / "spool" / f"{name}.json").unlink(missing_ok=True)
    return f"{len(known)} jobs"


def _fill_disk(stage: Stage) -> str | None:
    span = _span(stage)
    if os.statvfs(stage.disk).f_flag & os.ST_RDONLY:
        return None
    stage.disk_failed = True
    disk.fill(stage.disk)
    stage.after(span, lambda: make_writable(stage.disk))
    return f"for {span:.1f} s"


def _read_only(stage: Stage) -> str | None:
    span = _span(stage)
    stage.disk_failed = True
    if not disk.read_only(stage.disk):
        return None
    stage.after(span, lambda: make_writable(stage.disk))
    return f"for {span:.1f} s"


def _worker_by_hand(stage: Stage) -> str | None:
    folders = [path for path in (scene.study(stage.place) / "jobs").glob("[!.]*") if path.is_dir()]
    if not folders:
        return None
    newest = max(folders, key=lambda path: int(path.name.rpartition("-")[2]))
    spool.start_worker(stage.place, newest, {}, f"by-hand-{os.urandom(3).hex()}")
    return ""


EVENTS = {
    "kill_worker": Event(_kill_worker, 4),
    "terminate_worker": Event(_terminate_worker, 1),
    "stop_worker": Event(_stop_worker, 3),
    "requeue_killed": Event(lambda stage: _requeued(stage, signal.SIGKILL), 2, ("spool",)),
    "requeue_stopped": Event(lambda stage: _requeued(stage, signal.SIGSTOP), 1, ("spool",)),
    "kill_driver": Event(_kill_driver, 2),
    "interrupt_driver": Event(_interrupt_driver, 2),
    "terminate_driver": Event(_terminate_driver, 1),
    "another_driver": Event(_another_driver, 2),
    "scheduler_down": Event(_scheduler_down, 2, ("spool",)),
    "forget": Event(_forget, 1, ("spool",)),
    "fill_disk": Event(_fill_disk, 1, needs="disk"),
    "read_only": Event(_read_only, 1, needs="disk"),
    "worker_by_hand": Event(_worker_by_hand, 2, ("spool",), needs="hosts"),
}
"""All events by name."""
