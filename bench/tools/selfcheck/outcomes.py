"""The result of a check with its accepted range, and the allowance for chance."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from modescope.bench.devices.devices import Hardware
from modescope.bench.text.tables import UNKNOWN

CHANCE = 1e-4
"""Probability that a harness which just meets the stated rate fails a check. It was set before the
runs; with some 40 checks, 4 in 1,000 runs of a sound harness have a check that falls short."""


@dataclass(frozen=True)
class Setting:
    """The device of a check, the number of its trials and their seed."""

    device: Hardware
    thorough: bool
    seed: int = 0

    def seeds(self, trials: int, purpose: str) -> list[int]:
        """A seed for each trial, different for each purpose."""
        draw = random.Random(f"{self.seed} {purpose}")
        return [draw.randrange(2**32) for _ in range(trials)]

    def count(self, quick: int, thorough: int) -> int:
        """The number of trials."""
        return thorough if self.thorough else quick


@dataclass(frozen=True)
class CheckRow:
    """One row: `holds` is None if it is reported only, or cannot be decided here."""

    check: str
    condition: str
    found: str  # the result, or why there is none
    accepted: str
    holds: bool | None
    trials: int
    value: float | None = None  # the figure that decides, if there is a single one


SelfCheck = Callable[[Setting], Iterator[CheckRow]]


def most(trials: int, share: float) -> int:
    """The number of `trials` that may go wrong if a `share` of them may: a binomial quantile."""
    return quantile(trials, share, 1 - CHANCE)


def quantile(trials: int, share: float, probability: float) -> int:
    """The least k with P(at most k of `trials`) >= `probability` (binomial).

    Uses logarithms, because (1 - share) ** trials may be too small for a float.
    """
    log_term = trials * math.log1p(-share)
    below = math.exp(log_term)
    k = 0
    while below < probability and k < trials:
        log_term += math.log((trials - k) / (k + 1) * share / (1 - share))
        below += math.exp(log_term)
        k += 1
    return k


def percent(share: float | None) -> str:
    """`0.0123` as `1.2 %`."""
    if share is None:
        return UNKNOWN
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
