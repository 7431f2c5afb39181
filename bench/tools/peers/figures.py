"""Readings of one callable by each harness and by modescope's clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from modescope.bench.records.progress import one_line
from modescope.bench.tools.peers.harness import Harness
from modescope.bench.tools.peers.ours import CLOCKS
from modescope.bench.tools.testbed.sides import Side


@dataclass(frozen=True)
class Alternation:
    """One alternation: both readings of the same callable, in direct succession."""

    harness: str
    alternation: int
    clock: str
    theirs_s: float | None
    ours_s: float | None
    reason: str | None = None  # why a reading is missing
    table: str = "figure"  # distinguishes it from a Decision in the same file

    @property
    def ratio(self) -> float | None:
        """Theirs ÷ ours; None if one is missing."""
        if self.theirs_s is None or self.ours_s is None:
            return None
        return self.theirs_s / self.ours_s


def alternations(
    harnesses: Sequence[Harness],
    of: Side,
    count: int,
    shuffle: random.Random,
    seconds: float | None = None,
) -> Iterator[Alternation]:
    """Reads theirs and ours in random order, `count` times for each harness, harnesses shuffled.

    Drift of the machine then widens the spread instead of biasing the ratio. `seconds` per reading;
    None: each harness's default.
    """
    for alternation in range(count):
        for harness in shuffle.sample(harnesses, len(harnesses)):
            yield _alternation(harness, of, alternation, shuffle, seconds)


def _alternation(
    harness: Harness, of: Side, number: int, shuffle: random.Random, seconds: float | None
) -> Alternation:
    def theirs() -> float:
        return harness.figure(harness.measure(of, seconds))

    def ours() -> float | None:
        samples = CLOCKS[harness.clock](of, seconds)
        return median(samples) if samples else None

    reason = harness.missing(of.device)
    if reason:
        return Alternation(harness.name, number, harness.clock, None, None, reason)
    readings: dict[str, Callable[[], float | None]] = {"theirs": theirs, "ours": ours}
    try:
        read = {name: readings[name]() for name in shuffle.sample(list(readings), len(readings))}
    except RuntimeError as error:
        return Alternation(harness.name, number, harness.clock, None, None, one_line(error))
    none = None if read["ours"] else f"no {harness.clock} reading of this step"
    return Alternation(harness.name, number, harness.clock, read["theirs"], read["ours"], none)
