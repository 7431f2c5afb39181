"""Runs one process for each side (old, new) of `bench.versus`.

`SideProcess` is how the parent uses that process, and `Worker` is what runs in it. It has the
interpreter of its side, and a forkserver of its own, so that all processes of the side have the
same interpreter and import path. It ends with its parent. Imports no torch.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import modescope
from modescope.bench.records.errors import Progress, UsageError
from modescope.bench.records.files import temporary_folder
from modescope.bench.records.paths import is_installed
from modescope.bench.records.rows import ROWS, read
from modescope.bench.resolve import Request
from modescope.bench.sweep import isolation
from modescope.bench.sweep.attempt import Place, attempt, describe_end, remove_abandoned_files
from modescope.bench.sweep.isolation import Task, ignore_interrupts
from modescope.bench.sweep.prepare import Job, prepare
from modescope.bench.sweep.resume import find_earlier
from modescope.bench.versus.states import CodeState

START = "from modescope.bench.versus.sides import main; import sys; main(int(sys.argv[1]))"
"""Python code that the process of a side runs."""

END_TIMEOUT_S = 10.0

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

Question = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]
"""A method of `Worker`, and its arguments by place and by name."""


class SideProcess:
    """The parent's handle of the process that measures `state`; takes one question at a time."""

    def __init__(
        self, state: CodeState, pipe: Connection, process: subprocess.Popen[bytes]
    ) -> None:
        self.state, self._pipe, self._process = state, pipe, process

    def ask(
        self,
        method: Callable[Concatenate[Worker, Given], Answer],
        *arguments: Given.args,
        **named: Given.kwargs,
    ) -> Callable[[], Answer]:
        """Makes the process call `method`; returns a function that waits for the result.

        That function raises the error of the method, or UsageError if the process has ended.
        """
        with suppress(OSError):  # it has ended, which the returned function reports
            self._pipe.send((method, arguments, named))
        return self._answer

    def _answer(self) -> Any:
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
        """Ends the process, and whatever it is measuring."""
        self._pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
        self._process.kill()
        self._process.wait()


@contextmanager
def start(state: CodeState) -> Iterator[SideProcess]:
    """Starts the process that measures `state`; ends it after the block."""
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
        side = SideProcess(state, ours, process)
        try:
            yield side
        finally:
            side.end()


class Worker:
    """What runs in the process of a side; `SideProcess.ask` gets one of its methods."""

    def prepare(
        self, state: CodeState, requests: Sequence[Request]
    ) -> tuple[tuple[Job, ...], list[int | None]]:
        """Returns the jobs of `requests`, and for each job the block of the row that it can reuse.

        A block is a group of processes that alternated; its number is in the column `versus_block`,
        and is None if there is no such row. Raises UsageError for a mistake of the user.
        """
        alone = [
            replace(request, sweep=False) for request in requests
        ]  # so no mode is measured coarsely
        self._jobs = tuple(prepare(alone))
        first, plan = self._jobs[0], self._jobs[0].plan
        if first.refusal and not requests[0].sweep:  # in a sweep, its row says so
            raise UsageError(f"mode={first.case.variant.mode.name}: {first.refusal}")
        _check_sources(state, self._jobs)
        remove_abandoned_files(plan)
        found = read(
            plan.study_folder / ROWS, ("run_id", "schema_version", "versus_block", "versus_state")
        )
        blocks = {row["run_id"]: row["versus_block"]
                  for row in (found.table.to_pylist() if found else ())
                  if row["versus_state"] == state.name}  # fmt: skip
        reuses = find_earlier(self._jobs, alone[0])
        return self._jobs, [blocks.get(reuse.run_id) for reuse in reuses]

    def measure(self, number: int, place: Place) -> str:
        """Measures a job; returns how it ended, such as `faster, 12 s`.

        `number`: its index in what `prepare` returned. `place`: columns of its row that say when
        and on which side it was measured.
        """
        return describe_end(attempt(self._jobs[number], place=place))


def _check_sources(state: CodeState, jobs: Sequence[Job]) -> None:
    """Raises UsageError if a job would not import the user's code from the folder of `state`.

    For each job, at least one imported file must be in that folder. It may be the file of the loss,
    because the model may come from an installed package.
    """
    if state.source is None:
        return
    cases = {(job.case.model.target, getattr(job.case.options, "loss", "")) for job in jobs}
    for targets in sorted(cases):
        outcome = isolation.call(
            Task("modescope.bench.versus.sides:imported_files", list[str]),
            targets,
            timeout_s=jobs[0].plan.timeout_s,
        )
        if outcome.value is None:
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


def imported_files(progress: Progress, targets: Sequence[str]) -> list[str]:
    """Returns the user's files that importing `targets` imports; runs in a child process.

    A target is "module:function"; a text without a colon is ignored. Files of modescope, Python and
    installed packages are not the user's.
    """
    find = pkgutil.resolve_name("modescope.bench.model.building:find")  # which imports torch
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
    """Runs the process of a side: answers each `Question` from the pipe, the file `descriptor`."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends children
    parent, worker = Connection(descriptor), Worker()
    questions: SimpleQueue[Question] = SimpleQueue()
    threading.Thread(target=_receive, args=(parent, questions), daemon=True).start()
    while True:
        method, arguments, named = questions.get()
        answer: object
        try:
            answer = method(worker, *arguments, **named)
        except (UsageError, OSError) as error:
            answer = error
        except Exception:
            answer = RuntimeError(traceback.format_exc())
        parent.send(answer)


def _receive(parent: Connection, questions: SimpleQueue[Question]) -> None:
    try:
        while True:
            questions.put(parent.recv())
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
