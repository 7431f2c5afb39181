"""The input (`Setting`) and output (`CheckRow`) of checks, and how many trials may go wrong."""

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
"""Probability that a harness with exactly the stated rate of errors fails a check. So with some 40
checks, 4 in 1,000 runs of such a harness have a failed check. It was set before any run."""

DETECTED = 0.95
"""Share of trials in which a planted effect has to be detected."""

NEEDS_GPU = "needs a CUDA GPU"
CLOCKS_UP_S = 0.3  # work that raises an idle GPU's clock


def open_device(name: str) -> Hardware:
    """Returns the device called `name`, after raising the clock of a GPU.

    Raises UsageError if there is no such device. An idle GPU has a low clock frequency, and spins
    calibrated with it would later be too short. So a first spin raises the clock, which is then
    read again.
    """
    device = find(name)
    if device.queues:
        device.hold(CLOCKS_UP_S)
        device.synchronize()
        device.clock_hz()
    return device


@dataclass(frozen=True)
class Setting:
    """What a check gets: the device, whether to make many trials, and the seed."""

    device: Hardware
    thorough: bool
    seed: int = 0

    def count(self, quick: int, thorough: int) -> int:
        """Returns the number of trials: `thorough` with --thorough, else `quick`."""
        return thorough if self.thorough else quick

    def seeds(self, trials: int, purpose: str) -> Iterator[int]:
        """Yields a seed per trial, which also depends on `purpose`. Shows a progress bar."""
        draw = random.Random(f"{self.seed} {purpose}")
        for _ in tqdm(range(trials), desc=purpose, leave=False, disable=None):
            yield draw.randrange(2**32)


@dataclass(frozen=True)
class CheckRow:
    """A line of the page: what was checked, the result, and whether it is accepted."""

    check: str
    condition: str
    found: str  # the result, or why there is none
    accepted: str = ""  # which results are
    holds: bool | None = None  # None: this machine cannot decide it


SelfCheck = Callable[[Setting], Iterator[CheckRow]]


def most_wrong(trials: int, share: float) -> int:
    """Returns how many of `trials` may be wrong if each is wrong with probability `share`.

    It is the smallest number that is exceeded with a probability of at most CHANCE.
    """
    chances = [
        math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(trials + 1)
    ]
    return int(np.searchsorted(np.cumsum(chances), 1 - CHANCE))


def limit_wrong(
    check: str, condition: str, wrong: int, trials: int, share: float, detail: str = ""
) -> CheckRow:
    """Returns a row that passes if `wrong` is at most `most_wrong(trials, share)`.

    `check` and `condition` are the row's first cells. `detail` is added to the numbers found.
    """
    allowed = most_wrong(trials, share)
    found = f"{wrong} of {trials}{detail}"
    return CheckRow(check, condition, found, f"at most {allowed}", wrong <= allowed)


def require_right(
    check: str, condition: str, right: int, trials: int, detail: str = ""
) -> CheckRow:
    """Returns a row that passes if `right` fits a share of DETECTED of the trials, or more.

    At most `most_wrong(trials, 1 - DETECTED)` may be wrong. The other parameters are those of
    `limit_wrong`.
    """
    needed = trials - most_wrong(trials, 1 - DETECTED)
    found = f"{right} of {trials}{detail}"
    return CheckRow(check, condition, found, f"at least {needed}", right >= needed)


def percent(share: float) -> str:
    """Returns `share` in percent with two digits: 0.0123 is `1.2 %`."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
