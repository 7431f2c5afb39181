"""The process of a worker: its command line, its time, signals and path.

    python -m bench.worker results/main/jobs/<sweep>-<n> [--minutes 60]

It ends when no task is left, or when the time that is left may not be enough for one more. SIGTERM
ends it at once. A job that its scheduler starts again continues the task that it was measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import modescope
from modescope.bench.cluster import broken, members
from modescope.bench.cluster.deadline import Deadline
from modescope.bench.cluster.folder import Folder, Sweep
from modescope.bench.cluster.work import work_of
from modescope.bench.cluster.worker import Worker
from modescope.bench.records.errors import UsageError


class EndedBySignal(SystemExit):
    """By SIGTERM or SIGUSR2."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


def main(words: Sequence[str]) -> int:
    """The command line; exit status 0, 1 by an error of the system, 2 for a wrong folder.

    130 by Ctrl-C.
    """
    given = parse(words)
    _follow_engine()
    try:
        run(Folder(given.folder.absolute()), given.minutes)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except broken.BrokenMachine as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}; finished runs are kept", file=sys.stderr)
        return 1
    return 0


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The folder, and the time limit."""
    parser = argparse.ArgumentParser(
        "python -m modescope.bench.worker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="a folder under results/<study>/jobs/")
    parser.add_argument("--minutes", type=float, help="the time limit of this worker")
    return parser.parse_args(words)


def run(folder: Folder, minutes: float | None = None, signal_delay_s: float = 0.0) -> None:
    """Measures tasks of the folder until none is left for this worker."""
    try:
        sweep = folder.sweep()
    except OSError as error:
        raise UsageError(f"{folder.path}: no folder of a sweep, as under <study>/jobs/") from error
    _enter(sweep)
    deadline = Deadline.of(minutes, signal_delay_s)
    member = members.this()
    if folder.is_finished(sweep):
        return  # it waited in the queue until all was done
    with members.Heartbeat(folder, member) as heartbeat:
        work = work_of(sweep)
        work.prepare(member)
        heartbeat.why = Worker(folder, sweep, member, work, deadline).run()


def _enter(sweep: Sweep) -> None:
    """Goes where the sweep was started, and ends in an orderly way by a signal."""
    if Path(sweep.working_folder).is_dir():
        os.chdir(sweep.working_folder)
    _leave_checkout()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)
        if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:  # submitit has one, which requeues
            signal.signal(signal.SIGUSR2, _end)


def _leave_checkout() -> None:
    """Takes a checkout off the path, where it would hide a user's own models, bench, ...

    An engine has put it there, and so has `python -m`.
    """
    root = Path(modescope.__file__).absolute().parents[1]
    if (root / "modescope" / "bench").is_dir():  # installed: the other packages are there, too
        return
    if not sys.flags.safe_path and Path(sys.path[0]).absolute() == root:
        del sys.path[0]
    if os.environ.get(members.SUBMITTED):
        added, _, rest = os.environ.get("PYTHONPATH", "").partition(os.pathsep)
        if added == str(root):
            os.environ["PYTHONPATH"] = rest
            if added not in rest.split(os.pathsep):
                sys.path.remove(added)


def _end(signum: int, frame: object) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGUSR2):
        if signal.getsignal(number) is _end:
            signal.signal(number, signal.SIG_IGN)  # it still has to say how it ended
    raise EndedBySignal


def _follow_engine() -> None:
    """Takes the cores that the engine gave, and ends with the process that started this one."""
    given = json.loads(os.environ.get(members.VARIABLE, "{}"))
    if given.get("cores") and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, given["cores"])
    if given.get("ends_with_parent"):
        threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """At the end of stdin, a pipe whose other end is the parent's."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
