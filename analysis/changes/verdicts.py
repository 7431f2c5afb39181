"""The verdict on the timing of a row, from its changes against eager and in latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from modescope.analysis.changes.welch import Change

Booleans = NDArray[np.bool_]

SLOWER = "slower"
LOST = "lost to eager"
EAGER_MAYBE = "undecided: eager may have become faster"
FASTER = "faster"
NO_WORSE = "no worse"
UNDECIDED = "undecided"

LEAST_PROCESSES = 3
"""Processes a side, below which no timing fails: the spread of two is a guess."""


@dataclass(frozen=True)
class Margins:
    """Changes that nobody minds, as logarithms: of the time against eager, and of the latency."""

    against_eager: float
    latency: float


@dataclass(frozen=True)
class Changes:
    """What changed in a row: its time against eager, eager's own time, and its latency.

    The first two are None for a row without a baseline, whose latency is compared as it is.
    """

    against_eager: Change | None
    eager: Change | None
    latency: Change


def is_slower(latency: Change, margins: Margins) -> Booleans:
    """Whether the whole interval of the latency lies beyond the margin."""
    return np.asarray(latency.low > margins.latency)


def is_behind_eager(against_eager: Change, margins: Margins) -> Booleans:
    """Whether the whole interval of the time against eager lies beyond the margin."""
    return np.asarray(against_eager.low > margins.against_eager)


def eager_kept_its_pace(eager: Change, margins: Margins) -> Booleans:
    """Whether the interval of eager's own time excludes that eager became faster."""
    return np.asarray(eager.low > -margins.against_eager)


def is_broken(control: Change, margins: Margins) -> Booleans:
    """Whether eager against itself changed, which it cannot: the measurement was disturbed."""
    return is_behind_eager(control, margins) | (control.high < -margins.against_eager)


def verdict(changes: Changes, margins: Margins) -> str:
    """One of the verdicts of this module, on one row."""
    against, eager, latency = changes.against_eager, changes.eager, changes.latency
    if is_slower(latency, margins):
        return SLOWER
    if against is not None and eager is not None and is_behind_eager(against, margins):
        return LOST if eager_kept_its_pace(eager, margins) else EAGER_MAYBE
    bounded = against is None or against.high < margins.against_eager
    if bounded and latency.high < -margins.latency:
        return FASTER
    return NO_WORSE if bounded and latency.high < margins.latency else UNDECIDED
