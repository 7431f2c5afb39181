"""The process of one side: prepares and measures jobs with its interpreter when asked to.

It has its own forkserver, so that all of a side's processes run by one interpreter and search
one path. It ends with its parent. Imports no torch.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

from modescope.bench.records import leftovers
from modescope.bench.records.errors import UsageError
from modescope.bench.records.rows import ROWS
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation
from modescope.bench.sweep.attempt import OnPhase, Place, attempt
from modescope.bench.sweep.prepare import Job, prepare
from modescope.bench.sweep.resume import Found, find_earlier

TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Origin:
    """Where a function of the user's comes from, and what was imported with it."""

    key: str  # the setting that names the function
    target: str
    file: str | None
    others: tuple[str, ...]  # without installed packages


@dataclass(frozen=True)
class Prepared:
    """What a side will measure, and what its study holds of it."""

    jobs: tuple[Job, ...]
    found: Found
    origins: tuple[Origin, ...]


class Side:
    """Answers the parent's questions."""

    def __init__(self) -> None:
        self.jobs: tuple[Job, ...] = ()

    def prepare(
        self,
        on_phase: OnPhase,
        requests: Sequence[Request],
        targets: Sequence[tuple[str, str]],
    ) -> Prepared:
        """Validates the requests in this environment; UsageError for a mistake of the user.

        `targets` are functions of the user's whose origin is asked for, each with its setting.
        """
        alone = [replace(each, sweep=False) for each in requests]  # so no mode is measured coarsely
        self.jobs = tuple(prepare(alone))
        plan = self.jobs[0].plan
        folder = plan.study_folder
        leftovers.clear(folder / ROWS, folder / "traces", Path(plan.results_dir))
        origins = tuple(_origin(key, target, plan.timeout_s) for key, target in targets)
        return Prepared(self.jobs, find_earlier(self.jobs, requests[0]), origins)

    def measure(self, on_phase: OnPhase, number: int, place: Place) -> str:
        """Measures a job by its number; returns the run id."""
        return str(attempt(self.jobs[number], on_phase, place)["run_id"])


def _origin(key: str, target: str, timeout_s: float) -> Origin:
    outcome = isolation.call("modescope.bench.versus.origin:read", key, target, timeout_s=timeout_s)
    if outcome.kind != "returned":
        raise UsageError(outcome.reason or f"{key}={target} cannot be imported")
    return Origin(key, target, *outcome.value)


def main(descriptor: int) -> NoReturn:
    """Answers the questions that come through this pipe, until the parent is gone.

    A question is a method of `Side` and its arguments. Its answer is ("phase", text), any number of
    times, then one of ("returned", value), ("usage", sentence), ("system", error) and
    ("failed", traceback).
    """
    signal.signal(signal.SIGTERM, _end)
    parent, side = Connection(descriptor), Side()
    questions: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(parent, questions), daemon=True).start()
    while True:
        name, arguments = questions.get()
        _answer(parent, partial(getattr(side, name), partial(_report, parent), *arguments))


def _answer(parent: Connection, question: Callable[[], object]) -> None:
    try:
        answer: tuple[str, object] = ("returned", question())
    except UsageError as error:
        answer = ("usage", str(error))
    except OSError as error:
        answer = ("system", error)
    except Exception:
        answer = ("failed", traceback.format_exc())
    parent.send(answer)


def _report(parent: Connection, phase: str) -> None:
    parent.send(("phase", phase))


def _receive(parent: Connection, questions: SimpleQueue[tuple[str, tuple[Any, ...]]]) -> None:
    """Passes questions on; ends this process, and the one that measures, with the parent."""
    try:
        while True:
            questions.put(parent.recv())
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


def _end(signum: int, frame: object) -> NoReturn:
    raise SystemExit(TERMINATED)
