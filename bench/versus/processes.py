"""The processes of the two sides, as their parent sees them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import modescope
from modescope.bench.records import leftovers
from modescope.bench.records.child_processes import deaf_to_interrupts
from modescope.bench.records.errors import UsageError
from modescope.bench.versus.states import State

START = "from modescope.bench.versus.worker import main; import sys; main(int(sys.argv[1]))"

END_TIMEOUT_S = 10.0


class Process:
    """The process of a side, which answers one question at a time (`bench.versus.worker.Side`)."""

    def __init__(self, state: State, connection: Connection, process: subprocess.Popen[bytes]):
        self.state = state
        self._connection = connection
        self._process = process

    def ask(self, question: str, *arguments: Any) -> None:
        """Sends a question; the process works on it until `answer` reads the result."""
        with contextlib.suppress(OSError):  # it has ended, which `answer` reports
            self._connection.send((question, arguments))

    def answer(self, on_phase: Callable[[str], None] = lambda phase: None) -> Any:
        """Waits for the answer; UsageError for a mistake of the user, or if the process ended."""
        while True:
            try:
                kind, value = self._connection.recv()
            except (EOFError, OSError):
                status = self._process.wait()
                raise UsageError(
                    f"{self.state}: the process of this side ended by itself (exit status {status})"
                ) from None
            if kind == "phase":
                on_phase(value)
            elif kind == "returned":
                return value
            elif kind == "usage":
                raise UsageError("\n".join(f"{self.state}: {line}" for line in value.splitlines()))
            elif kind == "system":
                raise value
            else:
                raise RuntimeError(f"the process of {self.state} failed:\n{value}")

    def end(self) -> None:
        """Ends the process and what it is measuring."""
        self._connection.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def started(state: State) -> Iterator[Process]:
    """The process of a side, started by its interpreter with its search path."""
    ours, theirs = Pipe()
    with leftovers.scratch() as folder:
        # First on the path, so that this checkout measures whatever modescope the interpreter has;
        # alone in its folder, so that neither its neighbours nor other packages come with it.
        (folder / "modescope").symlink_to(Path(modescope.__file__).parent)
        path = os.pathsep.join((str(folder), *state.search))
        command = [str(state.python), "-P", "-c", START, str(theirs.fileno())]
        with deaf_to_interrupts():
            child = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        theirs.close()
        process = Process(state, ours, child)
        try:
            yield process
        finally:
            process.end()
