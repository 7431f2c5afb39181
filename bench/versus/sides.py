"""The process of a side, as its parent sees it (`Side`) and as it runs (`Worker`).

It is started by the side's interpreter and has its own forkserver, so that all of a side's
processes run by one interpreter and search one path. It ends with its parent. Imports no torch.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import modescope
from modescope.bench.records.errors import Progress, UsageError
from modescope.bench.records.files import remove_abandoned, temporary_folder
from modescope.bench.records.paths import is_installed
from modescope.bench.records.rows import ROWS, read
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation
from modescope.bench.sweep.attempt import Place, attempt, describe_end
from modescope.bench.sweep.isolation import ignore_interrupts
from modescope.bench.sweep.prepare import Job, prepare
from modescope.bench.sweep.resume import find_earlier
from modescope.bench.versus.states import State

START = "from modescope.bench.versus.sides import main; import sys; main(int(sys.argv[1]))"

END_TIMEOUT_S = 10.0


class Side:
    """The process of a state, which answers one question at a time."""

    def __init__(self, state: State, pipe: Connection, process: subprocess.Popen[bytes]) -> None:
        self.state, self._pipe, self._process = state, pipe, process

    def ask(self, method: str, *arguments: Any) -> None:
        """Calls a method of `Worker` there; `answer` waits for what it returns."""
        with suppress(OSError):  # it has ended, which `answer` reports
            self._pipe.send((method, arguments))

    def answer(self) -> Any:
        """What the method returned, or raises what it raised."""
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            how = isolation.describe_exit(self._process.wait())
            raise UsageError(f"{self.state}: the process of this side ended {how}") from None
        if isinstance(answer, UsageError):
            raise UsageError(f"{self.state}: {answer}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """Ends the process and what it is measuring."""
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
        self._process.kill()
        self._process.wait()


@contextmanager
def start(state: State) -> Iterator[Side]:
    """The process of a side, started by its interpreter with its search path."""
    ours, theirs = Pipe()
    with temporary_folder() as folder:
        # First on the path, so that this checkout measures whatever modescope the interpreter has;
        # alone in its folder, so that neither its neighbours nor other packages come with it.
        (folder / "modescope").symlink_to(Path(modescope.__file__).parent)
        path = os.pathsep.join((str(folder), *state.search))
        with ignore_interrupts():
            process = subprocess.Popen(
                [state.python, "-P", "-c", START, str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        side = Side(state, ours, process)
        try:
            yield side
        finally:
            side.end()


class Worker:
    """Answers the parent's questions."""

    def prepare(
        self, state: State, requests: Sequence[Request]
    ) -> tuple[tuple[Job, ...], list[int | None]]:
        """The jobs, and the block of the row that each can reuse; None without one.

        Raises UsageError for a mistake of the user.
        """
        alone = [replace(each, sweep=False) for each in requests]  # so no mode is measured coarsely
        self._jobs = tuple(prepare(alone))
        first, plan = self._jobs[0], self._jobs[0].plan
        if first.refusal and not requests[0].sweep:  # in a sweep, its row says so
            raise UsageError(f"mode={first.case.variant.mode.name}: {first.refusal}")
        _check_sources(state, self._jobs)
        folder = plan.study_folder / ROWS
        remove_abandoned(folder, plan.study_folder / "traces", Path(plan.results_dir))
        found = read(folder, ("run_id", "schema_version", "versus_block", "versus_state"))
        blocks = {row["run_id"]: row["versus_block"]
                  for row in (found.table.to_pylist() if found else ())
                  if row["versus_state"] == state.name}  # fmt: skip
        reuses = find_earlier(self._jobs, alone[0])
        return self._jobs, [blocks.get(reuse.run_id) for reuse in reuses]

    def measure(self, number: int, place: Place) -> str:
        """Measures a job by its number; returns how it ended, in a few words."""
        return describe_end(attempt(self._jobs[number], place=place))


def _check_sources(state: State, jobs: Sequence[Job]) -> None:
    """UsageError if the user's code is not that of the state.

    Of each case some must be: its model may be another package's, its loss the user's.
    """
    if state.source is None:
        return
    cases = {(job.case.model.target, getattr(job.case.options, "loss", "")) for job in jobs}
    for targets in sorted(cases):
        outcome = isolation.call(
            "modescope.bench.versus.sides:files", targets, timeout_s=jobs[0].plan.timeout_s
        )
        if outcome.kind != "returned":
            raise UsageError(outcome.reason or f"{targets[0]} cannot be imported")
        paths = {Path(file).resolve() for file in outcome.value}
        hidden = state.hidden or state.source
        others = [path for path in paths if not path.is_relative_to(state.source)]
        if len(others) == len(paths) or any(path.is_relative_to(hidden) for path in others):
            raise UsageError(
                f"{targets[0]} must run the code of that folder or revision, and imports "
                f"{', '.join(map(str, others)) or 'no file of yours'}; start in the folder from "
                "which your package is imported, or put it on PYTHONPATH"
            )


def files(progress: Progress, targets: Sequence[str]) -> list[str]:
    """Runs in a child: the files of the user's that are imported with functions ("module:name")."""
    find = pkgutil.resolve_name("modescope.bench.steps.building:find")  # which imports torch
    before = set(sys.modules)
    for target in targets:
        if ":" in target:
            find(target)
    new = {name: getattr(sys.modules[name], "__file__", None) for name in {*sys.modules} - before}
    return sorted(
        file
        for name, file in new.items()
        if file and not name.startswith("modescope.") and not is_installed(file)
    )


def main(descriptor: int) -> NoReturn:
    """Answers what comes through this pipe, a method of `Worker` and its arguments each time."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends children
    parent, worker = Connection(descriptor), Worker()
    questions: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(parent, questions), daemon=True).start()
    while True:
        method, arguments = questions.get()
        try:
            answer = getattr(worker, method)(*arguments)
        except (UsageError, OSError) as error:
            answer = error
        except Exception:
            answer = RuntimeError(traceback.format_exc())
        parent.send(answer)


def _receive(parent: Connection, questions: SimpleQueue[tuple[str, tuple[Any, ...]]]) -> None:
    """Passes questions on; ends this process, and the one that measures, with the parent."""
    try:
        while True:
            questions.put(parent.recv())
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
