"""Shows how much of a sweep is measured: by a bar on a terminal or in a notebook, else by lines."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain, count
from typing import NoReturn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of tqdm, about notebooks
    from tqdm.autonotebook import tqdm

_shown = ContextVar("shown", default=True)

LONG_S = 10.0
"""From so many seconds on a phase's time is shown."""

FIRST_LINES_S, LINE_EVERY_S = (LONG_S, 60.0), 300.0
"""At which seconds of a phase a line is printed where there is no bar, and then how often."""

RENEWED_S = 1.0
"""How often the bar shows a phase's seconds."""

TIMED = frozenset({"warm-up", "timing", "sizes", "clocks", "parts", "steps", "ceilings", "profile"})
"""Phases whose calls are timed. The bar is renewed in them as seldom as lines are printed."""


def progress_bar(total: int, unit: str) -> tqdm[NoReturn]:
    """Returns a progress bar that vanishes at its end; disabled without terminal or notebook."""
    return tqdm(total=total, unit=unit, leave=False, disable=None if _shown.get() else True)


class Waiting:
    """Says in which phase a case is, and for how long once that takes long, in the bar or in lines.

    `begin` and `wait` are the `on_phase` and `on_wait` of `bench.sweep.isolation.call`.
    """

    def __init__(
        self, bar: tqdm[NoReturn], label: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bar, self._label, self._clock = bar, label, clock
        self.begin("start")

    def begin(self, phase: str) -> None:
        """Shows in the bar that `phase` begins."""
        self._phase, self._began_s = phase, self._clock()
        self._times_s = self._due_s()
        self._next_s = next(self._times_s)
        self._bar.set_description(f"{self._label}: {phase}")

    def wait(self) -> float:
        """Shows the phase's seconds if that is due; returns in how many seconds it is due again."""
        taken_s = self._clock() - self._began_s
        if taken_s >= self._next_s:
            self._next_s = next(due_s for due_s in self._times_s if due_s > taken_s)
            text = f"{self._label}: {self._phase}, {taken_s:.0f} s so far"
            self._bar.set_description(text)
            if self._bar.disable:
                say(text)
        return self._next_s - taken_s

    def _due_s(self) -> Iterator[float]:
        if not self._bar.disable and self._phase not in TIMED:
            return count(LONG_S, RENEWED_S)
        return chain(FIRST_LINES_S, count(FIRST_LINES_S[-1] + LINE_EVERY_S, LINE_EVERY_S))


def advance(bar: tqdm[NoReturn], number: int, finished: str) -> None:
    """Moves the bar by one. If no bar is shown, prints `number`, the total and `finished`.

    `number` counts what has finished, from 1, because a disabled bar does not count.
    """
    bar.update()
    if bar.disable and bar.total != 1 and _shown.get():
        print(f"{number}/{bar.total}  {finished}", file=sys.stderr, flush=True)


def say(line: str) -> None:
    """Prints a line on stderr at once, where progress is shown."""
    if _shown.get():
        print(line, file=sys.stderr, flush=True)


@contextmanager
def show(wanted: bool) -> Iterator[None]:
    """Shows progress in the block only if it is `wanted`."""
    token = _shown.set(wanted)
    try:
        yield
    finally:
        _shown.reset(token)
