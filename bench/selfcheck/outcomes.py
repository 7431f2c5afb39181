"""What a check found against what is accepted, and how chance is allowed for."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.devices import Hardware
from bench.pages import UNKNOWN

MANY = 100  # trials; from here on a share is taken as it is
CHANCE = 0.01  # below, a sound harness may fail a check once in a hundred times


@dataclass(frozen=True)
class Setting:
    """On what a check runs, and how thoroughly."""

    device: Hardware
    thorough: bool
    seed: int = 0

    def seeds(self, trials: int, purpose: str) -> list[int]:
        """A seed for each trial, other ones for another purpose."""
        draw = random.Random(f"{self.seed} {purpose}")
        return [draw.randrange(2**32) for _ in range(trials)]

    def count(self, quick: int, thorough: int) -> int:
        """The number of trials."""
        return thorough if self.thorough else quick


@dataclass(frozen=True)
class Outcome:
    """One row: `holds` is None where this machine cannot tell, `found` then says why."""

    check: str
    condition: str
    found: str
    accepted: str
    holds: bool | None
    trials: int
    value: float | None = None  # the figure that decides, where there is a single one


Check = Callable[[Setting], Iterator[Outcome]]


def most(trials: int, share: float) -> int:
    """How many of `trials` may go wrong if a `share` of them may?

    With MANY trials that share; with fewer, what chance alone makes of it in 99 of 100 cases.
    """
    return math.floor(share * trials) if trials >= MANY else quantile(trials, share, 1 - CHANCE)


def quantile(trials: int, share: float, probability: float) -> int:
    """The least k with P(at most k of `trials`) >= `probability` (binomial)."""
    term = below = (1 - share) ** trials
    k = 0
    while below < probability and k < trials:
        term *= (trials - k) / (k + 1) * share / (1 - share)
        below += term
        k += 1
    return k


def percent(share: float | None) -> str:
    """`0.0123` as `1.2 %`."""
    if share is None:
        return UNKNOWN
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
