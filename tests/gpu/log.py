"""What has been run, as a line per ended step: a run that was killed goes on behind the last one.

Imports the standard library alone, as does everything that runs before packages are installed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "steps.jsonl"
STOPPED = "stopped"
"""The verdict of a step that the end of a call or of the budget stopped: it is run again."""


class Busy(Exception):
    """Another run uses the folder."""


@dataclass(frozen=True)
class Machine:
    """What the steps ran on. Steps of different machines do not belong together."""

    gpu: str
    torch: str
    cuda: str | None
    driver: str | None
    python: str
    pretended: bool


@dataclass(frozen=True)
class Line:
    """An ended step."""

    step: str
    verdict: str  # of tests.gpu.running, or STOPPED
    seconds: float
    said: str
    commit: str | None
    at: str  # when it ended, UTC


class Log:
    """The lines of a folder; `machine` is None in a new one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        self.machine: Machine | None = None
        self.lines: list[Line] = []
        for each in self._read():
            if "gpu" in each:
                self.machine = Machine(**each)
            else:
                self.lines.append(Line(**each))

    def _read(self) -> Iterator[dict[str, Any]]:
        text = self.file.read_text(encoding="utf-8") if self.file.is_file() else ""
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # the last one, of a run that was killed while it wrote
                continue

    def begin(self, machine: Machine) -> None:
        """Notes the machine, in a new folder."""
        self.machine = machine
        self._append(asdict(machine))

    def add(self, line: Line) -> None:
        """Notes an ended step, on the disk before this returns."""
        self.lines.append(line)
        self._append(asdict(line))

    def _append(self, each: dict[str, Any]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a+", encoding="utf-8") as file:
            file.seek(0)
            text = file.read()
            cut = "\n" if text and not text.endswith("\n") else ""
            file.write(f"{cut}{json.dumps(each)}\n")
            file.flush()
            os.fsync(file.fileno())

    def last(self) -> dict[str, Line]:
        """The newest line of each step."""
        return {line.step: line for line in self.lines}

    def ended(self) -> dict[str, Line]:
        """The newest line of each step that is not to be run again."""
        return {name: line for name, line in self.last().items() if line.verdict != STOPPED}

    def spent_s(self) -> float:
        """What all steps took, in all calls, those that were run again included."""
        return sum(line.seconds for line in self.lines)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other runs from the folder; raises Busy if one uses it."""
    folder.mkdir(parents=True, exist_ok=True)
    directory = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise Busy from None
    finally:
        os.close(directory)
