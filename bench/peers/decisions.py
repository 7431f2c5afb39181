"""How often does each harness call equal steps different, and see a change that was planted?"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.devices import Hardware
from bench.isolation import one_line
from bench.peers.harnesses import Harness
from bench.peers.rules import FASTER, SAME, SLOWER
from bench.peers.sides import Recipe, Side, pair
from bench.testbed.corunners import co_runners

CHANGES = (0.0, 0.01, 0.02)
"""By how much the case is slower: not at all, 1 %, 2 %."""

REHEARSAL = 0.1  # of the time of a comparison: enough to import and start what a harness needs


@dataclass(frozen=True)
class Comparison:
    """One harness on one pair of steps."""

    harness: str
    co_runners: int
    change: float  # planted: the case is slower by this much
    trial: int
    decision: str | None = None  # slower | faster | same: what it says of the case
    case_s: float | None = None
    baseline_s: float | None = None
    wall_s: float | None = None  # all that the comparison took, starts of processes included
    reason: str | None = None  # why there is no decision
    table: str = "decision"  # tells it from a Figure in the same file

    @property
    def alarm(self) -> bool:
        """Whether equal steps were called different."""
        return self.change == 0 and self.decision not in (SAME, None)

    @property
    def seen(self) -> bool:
        """Whether the planted change was seen as what it is."""
        return self.change > 0 and self.decision == SLOWER

    @property
    def wrong(self) -> bool:
        """Whether the slower step was called faster."""
        return self.change > 0 and self.decision == FASTER


def comparisons(
    harnesses: Sequence[Harness],
    recipe: Recipe,
    device: Hardware,
    trials: int,
    seconds: float,
    co_runner_counts: Sequence[int],
    shuffle: random.Random,
) -> Iterator[Comparison]:
    """Every harness on every pair, in random order; a new pair for each trial of each change.

    `seconds` are for both sides together. What an unrecorded first comparison sets up (imports,
    the server that forks processes) is no part of any other.
    """
    sides = pair(recipe, 0.0, device, shuffle)
    for harness in harnesses:
        _compare(harness, sides, seconds * REHEARSAL, shuffle, 0, 0.0, 0)
    for count in co_runner_counts:
        with co_runners(count):
            for trial in range(trials):
                for change in shuffle.sample(CHANGES, len(CHANGES)):
                    sides = pair(recipe, change, device, shuffle)
                    for harness in shuffle.sample(harnesses, len(harnesses)):
                        yield _compare(harness, sides, seconds, shuffle, count, change, trial)


def _compare(
    harness: Harness,
    sides: tuple[Side, Side],
    seconds: float,
    shuffle: random.Random,
    count: int,
    change: float,
    trial: int,
) -> Comparison:
    what = (harness.name, count, change, trial)
    reason = harness.missing(sides[0].device)
    if reason:
        return Comparison(*what, reason=reason)
    start = time.perf_counter()
    try:
        case_s, baseline_s = harness.compare(*sides, seconds, shuffle)
    except RuntimeError as error:
        return Comparison(*what, reason=one_line(error))
    wall_s = time.perf_counter() - start
    return Comparison(
        *what,
        harness.decide(case_s, baseline_s),
        harness.figure(case_s),
        harness.figure(baseline_s),
        wall_s,
    )
