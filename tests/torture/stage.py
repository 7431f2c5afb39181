"""The running sweep of a round, and what is done to it: drivers, workers, scheduler, disk."""

from __future__ import annotations

import heapq
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture import clocks, disk, scene, spool

READY_S = 30.0


@dataclass
class Command:
    """A command of the user."""

    process: subprocess.Popen[bytes]
    output: Path
    allowed: set[int]  # exit statuses

    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(errors="replace")

    def is_ready(self) -> bool:
        """Whether it has imported everything."""
        return "ready" in self.text()


@dataclass
class Stage:
    """A round's folder and processes."""

    place: Path
    draw: random.Random
    commands: list[Command] = field(default_factory=list)
    later: list[tuple[float, int, bool, Callable[[], None]]] = field(default_factory=list)
    disk_failed: bool = False
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def disk(self) -> Path:
        """The disk of the study."""
        return self.place / "disk"

    def start(self) -> Command:
        """The user types the command, at a machine whose clock may differ."""
        skew = self.draw.choice(clocks.SKEWS_S) if scene.scene(self.place).skews else 0
        output = self.place / "output" / f"{len(self.commands)}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.process", "driver"],
                env=scene.variables(self.place, skew),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        command = Command(process, output, {0, 1})
        self.commands.append(command)
        return command

    def running(self) -> list[Command]:
        """Commands that have not ended."""
        return [each for each in self.commands if each.process.poll() is None]

    def after(self, seconds: float, action: Callable[[], None], late: bool = False) -> None:
        """Does something later; `late`: even after everything else was healed."""
        when = time.monotonic() + seconds
        heapq.heappush(self.later, (when, next(self._numbers), late, action))

    def due(self) -> None:
        """Does what is due."""
        while self.later and self.later[0][0] <= time.monotonic():
            heapq.heappop(self.later)[-1]()

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Waits, doing what is due; whether the condition holds."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() >= deadline:
                return until()
            self.due()
            time.sleep(0.01)
        return True

    def worker(self) -> int | None:
        """One of the workers."""
        found = sorted(scene.processes(self.place, "worker"))
        return self.draw.choice(found) if found else None

    def signal(self, pid: int, number: int) -> None:
        """Sends a signal to a worker."""
        scene.note(self.place, "signal", to=pid, number=int(number))
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def workers_disturbed(self) -> None:
        """All workers that are known now may be lost."""
        for pid in scene.processes(self.place, "worker"):
            scene.note(self.place, "signal", to=pid, number=0)

    def heal(self) -> None:
        """Ends all that was done, and lets no file operation fail any more.

        Workers that are stopped go on later, when others have taken their place.
        """
        (self.place / "calm").touch()
        now, self.later = self.later, [entry for entry in self.later if entry[2]]
        heapq.heapify(self.later)
        for _, _, late, action in now:
            if not late:
                action()
        (self.place / "down").unlink(missing_ok=True)

    def end(self) -> None:
        """Kills what is left."""
        for pid in list(scene.processes(self.place)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in self.commands:
            command.process.wait()


def running_jobs(place: Path) -> list[str]:
    """Jobs whose process has registered."""
    return [name for name in spool.jobs(place) if (spool.read(place, name) or {}).get("process")]


def make_writable(folder: Path) -> None:
    """Both what `fill` and what `read_only` did is undone."""
    disk.writable(folder)
    disk.empty(folder)
