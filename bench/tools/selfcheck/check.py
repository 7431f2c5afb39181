"""What a check gets and returns, and how many of its trials may go wrong by chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware

CHANCE = 1e-4
"""Probability that a harness which just meets the stated rate fails a check. It was set before the
runs; with some 40 checks, 4 in 1,000 runs of a sound harness have a check that falls short."""

DETECTED = 0.95
"""Share of trials in which a planted effect has to be detected."""

NEEDS_GPU = "needs a CUDA GPU"
CLOCKS_UP_S = 0.3


def open_device(name: str) -> Hardware:
    """The device called `name`, with its clocks up. Raises UsageError if there is none.

    An idle GPU has a low clock, and spins calibrated with it would later be too short: a first spin
    raises the clock, then it is read again.
    """
    device = find(name)
    if device.queues:
        device.hold(CLOCKS_UP_S)
        device.synchronize()
        device.clock_hz()
    return device


@dataclass(frozen=True)
class Setting:
    """The device of a check, the number of its trials and their seed."""

    device: Hardware
    thorough: bool
    seed: int = 0

    def count(self, quick: int, thorough: int) -> int:
        """The number of trials."""
        return thorough if self.thorough else quick

    def seeds(self, trials: int, purpose: str) -> Iterator[int]:
        """A seed for each trial, different for each purpose; a progress bar on a terminal."""
        draw = random.Random(f"{self.seed} {purpose}")
        for _ in tqdm(range(trials), desc=purpose, leave=False, disable=None):
            yield draw.randrange(2**32)


@dataclass(frozen=True)
class CheckRow:
    """One row: `holds` is None if it cannot be decided here."""

    check: str
    condition: str
    found: str  # the result, or why there is none
    accepted: str = ""
    holds: bool | None = None


Check = Callable[[Setting], Iterator[CheckRow]]


def most(trials: int, share: float) -> int:
    """The number of `trials` that may go wrong if a `share` of them may."""
    chances = [
        math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)
    ]
    return int(np.searchsorted(np.cumsum(chances), 1 - CHANCE))


def limit_wrong(
    check: str, condition: str, wrong: int, trials: int, share: float, detail: str = ""
) -> CheckRow:
    """A row that holds if not more trials went wrong than chance allows at that `share`."""
    allowed = most(trials, share)
    found = f"{wrong} of {trials}{detail}"
    return CheckRow(check, condition, found, f"at most {allowed}", wrong <= allowed)


def require_right(
    check: str, condition: str, right: int, trials: int, detail: str = ""
) -> CheckRow:
    """A row that holds if as many trials were right as chance allows at DETECTED."""
    needed = trials - most(trials, 1 - DETECTED)
    found = f"{right} of {trials}{detail}"
    return CheckRow(check, condition, found, f"at least {needed}", right >= needed)


def percent(share: float) -> str:
    """`0.0123` as `1.2 %`."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
