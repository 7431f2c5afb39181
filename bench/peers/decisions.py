"""How often does each harness call equal steps different, and see a change that was planted?"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.devices import Hardware
from bench.isolation import one_line
from bench.peers.harness import Harness
from bench.peers.rules import FASTER, SAME, SLOWER
from bench.peers.sides import pair
from bench.testbed.corunners import co_runners
from bench.testbed.sides import Recipe

CHANGES = (0.0, 0.01, 0.02)
"""By how much the case is slower: not at all, 1 %, 2 %."""

REHEARSAL = 0.1  # of the time of a comparison: enough to import and start what a harness needs


@dataclass(frozen=True)
class Comparison:
    """What one harness says of one pair of steps, by one of its rules."""

    harness: str
    co_runners: int
    change: float  # planted: the case is slower by this much
    trial: int
    decision: str | None = None  # slower | faster | same: what it says of the case
    case_s: float | None = None
    baseline_s: float | None = None
    wall_s: float | None = None  # all that the comparison took, starts of processes included
    reason: str | None = None  # why there is no decision
    rule: str | None = None  # which of them, where the harness has several
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


Setting = tuple[int, float, int]
"""Number of co-runners, planted change, number of the trial."""


def comparisons(
    harnesses: Sequence[Harness],
    recipe: Recipe,
    device: Hardware,
    trials: int,
    seconds: float,
    co_runner_counts: Sequence[int],
    shuffle: random.Random,
) -> Iterator[Comparison]:
    """Every harness on a pair of its own for each trial of each change, in random order.

    A Comparison for each rule of a harness, which all judge the same samples. `seconds` are for
    both sides together. What an unrecorded first comparison sets up (imports, the server that
    forks processes) is no part of any other.
    """
    for harness in harnesses:
        _compare(harness, recipe, device, seconds * REHEARSAL, shuffle, (0, 0.0, 0))
    for count in co_runner_counts:
        with co_runners(count):
            for trial in range(trials):
                for change in shuffle.sample(CHANGES, len(CHANGES)):
                    setting = (count, change, trial)
                    for harness in shuffle.sample(harnesses, len(harnesses)):
                        yield from _compare(harness, recipe, device, seconds, shuffle, setting)


def _compare(
    harness: Harness,
    recipe: Recipe,
    device: Hardware,
    seconds: float,
    shuffle: random.Random,
    setting: Setting,
) -> list[Comparison]:
    """One for each rule of the harness; building the pair is no part of the time it takes."""
    without = [
        Comparison(harness.name, *setting, rule=criterion.name) for criterion in harness.criteria
    ]
    reason = harness.missing(device)
    if reason:
        return [replace(each, reason=reason) for each in without]
    sides = pair(recipe, setting[1], device, shuffle)
    start = time.perf_counter()
    try:
        case_s, baseline_s = harness.compare(*sides, seconds, shuffle)
    except RuntimeError as error:
        return [replace(each, reason=one_line(error)) for each in without]
    wall_s = time.perf_counter() - start
    return [
        replace(
            each,
            decision=criterion.decide(case_s, baseline_s),
            case_s=harness.figure(case_s),
            baseline_s=harness.figure(baseline_s),
            wall_s=wall_s,
        )
        for each, criterion in zip(without, harness.criteria, strict=True)
    ]
