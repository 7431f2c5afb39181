"""The end of a worker's time, and what has to be left of it."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

RESERVE_S = 60.0
"""Kept of a worker's time: a signal of Slurm may come that much earlier than was asked for."""

START_S = 240.0
"""Allowed for what comes before a worker's first case: imports, models, rows of earlier sweeps."""


@dataclass(frozen=True)
class Deadline:
    """The end of a worker's time."""

    ends: float | None  # seconds since the epoch, before the reserve

    @staticmethod
    def of(minutes: float | None, signal_delay_s: float = 0.0) -> Deadline:
        """So many minutes after now, or as Slurm says, whichever is sooner.

        `signal_delay_s`: how long before the end of its job Slurm interrupts the worker.
        """
        ends = [] if minutes is None else [time.time() + 60 * minutes]
        if by_slurm := os.environ.get("SLURM_JOB_END_TIME"):
            ends.append(float(by_slurm))
        return Deadline(min(ends) - signal_delay_s - RESERVE_S if ends else None)

    def leaves(self, seconds: float) -> bool:
        """Whether so much time is left, and the reserve."""
        return self.ends is None or time.time() + seconds <= self.ends


def least_min(timeout_s: float, signal_delay_s: float = 0.0) -> int:
    """The shortest time limit in minutes in which a worker measures at least one case."""
    return math.ceil((timeout_s + signal_delay_s + RESERVE_S + START_S) / 60)
