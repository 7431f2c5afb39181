"""Counts how often each harness calls equal steps different, and detects a planted change."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from modescope.bench.devices.devices import Hardware
from modescope.bench.records.progress import one_line
from modescope.bench.tools.peers.harness import Harness
from modescope.bench.tools.peers.rules import FASTER, SAME, SLOWER
from modescope.bench.tools.peers.sides import pair
from modescope.bench.tools.testbed.corunners import co_runners
from modescope.bench.tools.testbed.sides import Recipe

CHANGES = (0.0, 0.01, 0.02)
"""The planted slowdowns of the case: none, 1 %, 2 %."""

REHEARSAL = 0.1  # of the time of a comparison: enough for a harness's imports and start-up


@dataclass(frozen=True)
class Decision:
    """The decision of one harness on one pair of steps, by one of its rules."""

    harness: str
    co_runners: int
    change: float  # planted slowdown of the case
    trial: int
    decision: str | None = None  # slower | faster | same: the case against the baseline
    case_s: float | None = None
    baseline_s: float | None = None
    wall_s: float | None = None  # of the whole comparison, including starts of processes
    reason: str | None = None  # why there is no decision
    rule: str | None = None  # its name, if the harness has several
    table: str = "decision"  # distinguishes it from an Alternation in the same file

    @property
    def alarm(self) -> bool:
        """Whether equal steps were called different."""
        return self.change == 0 and self.decision not in (SAME, None)

    @property
    def detected(self) -> bool:
        """Whether the slower step was called slower."""
        return self.change > 0 and self.decision == SLOWER

    @property
    def wrong(self) -> bool:
        """Whether the slower step was called faster."""
        return self.change > 0 and self.decision == FASTER


TrialKey = tuple[int, float, int]
"""Number of co-runners, planted change, number of the trial."""


def comparisons(
    harnesses: Sequence[Harness],
    recipe: Recipe,
    device: Hardware,
    trials: int,
    seconds: float,
    co_runner_counts: Sequence[int],
    shuffle: random.Random,
) -> Iterator[Decision]:
    """Every harness on a pair of its own for each trial of each change, in random order.

    A Decision for each rule of a harness; all its rules judge the same samples. `seconds` are for
    both sides together. An unrecorded first comparison does the set-up (imports, the server that
    forks processes), so that no recorded one includes it.
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
    setting: TrialKey,
) -> list[Decision]:
    """A Decision for each rule of the harness; `wall_s` excludes building the pair."""
    without = [
        Decision(harness.name, *setting, rule=criterion.name) for criterion in harness.criteria
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
