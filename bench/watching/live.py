"""A thread that looks at a watched program: says what compiles for long, and sees who waits."""

from __future__ import annotations

import _thread
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from modescope.bench.records.paths import is_installed
from modescope.bench.records.watched import Wait
from modescope.bench.text import seconds as duration
from modescope.bench.watching.samples import Samples

if TYPE_CHECKING:
    from modescope.bench.watching.hooks import Frame

LONG_S = 2.0  # a compilation that takes longer is told
LOOK_S = 0.1  # between two looks at the threads while something compiles
LEAST_WAIT_S = 1.0


WENT_ON_S = 1.0  # a thread that moves so soon after a compilation waited for it


@dataclass(frozen=True)
class Standing:
    """Where a thread is, in code of the program itself, and since when it was seen there."""

    thread: int
    name: str
    place: str
    since_s: float

    def kept(self, now: Standing) -> Standing:
        """Returns where it is `now`, with the time from before if it has not moved."""
        return self if self.place == now.place else now


class Live:
    """Looks at a program until `stop` is called.

    Its thread is none of those that `threading` lists, which a program may join or count, and no
    trace function of the program's runs in it.
    """

    def __init__(
        self,
        compiling: Callable[[], Frame | None],
        samples: Samples,
        say: Callable[[str], None],
    ) -> None:
        self.waits: list[Wait] = []
        self._compiling, self._samples, self._say = compiling, samples, say
        self._ended, self._left = threading.Event(), threading.Event()
        self._told: Frame | None = None

    def start(self) -> None:
        """Begins the thread."""
        _thread.start_new_thread(self._run, ())

    def stop(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self._left.wait()

    def _run(self) -> None:
        try:
            self._look()
        finally:
            self._left.set()

    def _look(self) -> None:
        frame: Frame | None = None
        stood: dict[int, Standing] = {}
        wait_s = 0.0
        while not self._ended.wait(wait_s):
            wait_s = self._samples.tick()
            if frame is None or frame.end_s is not None:
                if frame is not None:
                    self._tell(frame)
                    self._judge(frame, stood)
                frame, stood = self._compiling(), {}
            if frame is not None:
                wait_s = LOOK_S
                now = standing(frame.thread)
                stood = {at.thread: stood.get(at.thread, at).kept(at) for at in now}
                self._tell(frame)
        if self._told is not None:
            self._tell(self._told)

    def _tell(self, frame: Frame) -> None:
        end_s = frame.end_s or time.perf_counter()
        passed = duration(end_s - frame.start_s)
        if frame.end_s is None and self._told is not frame and end_s - frame.start_s > LONG_S:
            self._told = frame
            self._say(f"modescope: compiling {name_of(frame)}, {passed} so far")
        elif frame.end_s is not None and self._told is frame:
            self._told = None
            self._say(f"modescope: compiled {name_of(frame)}, {passed}")

    def _judge(self, frame: Frame, stood: dict[int, Standing]) -> None:
        """Notes threads that stood at one line until the end, and went on right after."""
        assert frame.end_s is not None
        long = [at for at in stood.values() if frame.end_s - at.since_s >= LEAST_WAIT_S]
        until = time.perf_counter() + WENT_ON_S
        while long and time.perf_counter() < until and not self._ended.wait(LOOK_S / 4):
            now = {at.thread: at.place for at in standing(frame.thread)}
            for at in [at for at in long if now.get(at.thread) != at.place]:
                long.remove(at)
                seconds = frame.end_s - at.since_s
                self.waits.append(Wait(at.name, at.place, frame.named[0], seconds))


def name_of(frame: Frame) -> str:
    """Returns the name and place of what is compiled."""
    function, place = frame.named
    return f"{function} ({place})"


def standing(but: str) -> list[Standing]:
    """Returns where each thread that `threading` lists is, except the one called `but`."""
    now_s = time.perf_counter()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        Standing(thread, names[thread], place, now_s)
        for thread, frame in sys._current_frames().items()
        if names.get(thread, but) != but and (place := _place(frame))
    ]


def _place(frame: FrameType | None) -> str | None:
    while frame is not None:
        file = frame.f_code.co_filename
        if not (is_installed(file) or file.startswith("<")):
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return None
