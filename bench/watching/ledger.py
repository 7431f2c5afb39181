"""Adds up what the threads of a program do: compile, run compiled code, or neither."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

COMPILING, COMPILED, OTHER = range(3)
"""What a program does at a moment: the first of these that at least one of its threads does."""


@dataclass(frozen=True)
class Times:
    """Seconds of each kind; their sum is the time that has passed."""

    compiling_s: float
    compiled_s: float
    other_s: float

    def since(self, earlier: Times) -> Times:
        """Returns the seconds since `earlier`."""
        return Times(
            self.compiling_s - earlier.compiling_s,
            self.compiled_s - earlier.compiled_s,
            self.other_s - earlier.other_s,
        )


class Ledger:
    """A clock for each kind, of which exactly one runs.

    CPython lets another thread run, or a signal's handler, only at a call of a function or at the
    end of a loop's round. So what follows the clock in `shift` is never divided, and needs no lock.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.open = [0, 0]  # threads that compile, and that run compiled code
        self.seconds = [0.0, 0.0, 0.0]
        self.since = [clock()]

    def shift(self, kind: int, step: int) -> float:
        """Notes that a thread begins (`step` 1) or ends (-1) `kind`; returns the time.

        Around compiled code `bench.watching.pieces` does the same without a call.
        """
        open_, seconds, since = self.open, self.seconds, self.since
        now = self.clock()
        if now < since[0]:  # another thread ran after the clock was read
            now = since[0]
        doing = COMPILING if open_[0] else COMPILED if open_[1] else OTHER
        seconds[doing] += now - since[0]
        since[0] = now
        open_[kind] += step
        return now

    def is_compiling(self) -> bool:
        """Whether a thread compiles now."""
        return self.open[COMPILING] > 0

    def read(self) -> Times:
        """Returns the seconds of each kind until now."""
        self.shift(COMPILED, 0)
        return Times(*self.seconds)
