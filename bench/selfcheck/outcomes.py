"""What a check found against what is accepted, and how chance is allowed for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.devices import Hardware
from bench.pages import UNKNOWN

MANY = 1000  # trials; from here on a share is taken as it is
CHANCE = 0.01  # below, a sound harness may fail a check once in a hundred times


@dataclass(frozen=True)
class Setting:
    """On what a check runs, and how thoroughly."""

    device: Hardware
    thorough: bool
    seed: int = 0

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

    With MANY trials that share; with fewer the 99 % quantile of the binomial distribution, because
    chance alone would often exceed the share.
    """
    if trials >= MANY:
        return math.floor(share * trials)
    allowed, term = 0, (1 - share) ** trials
    below = term
    while below < 1 - CHANCE:
        term *= (trials - allowed) / (allowed + 1) * share / (1 - share)
        allowed += 1
        below += term
    return allowed


def percent(share: float | None) -> str:
    """`0.0123` as `1.2 %`."""
    if share is None:
        return UNKNOWN
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
