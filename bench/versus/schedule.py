"""The order in which the processes of both sides are measured: in random balanced blocks."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby

SIDES = ("old", "new")


@dataclass(frozen=True)
class Turn:
    """A process: the number of its job, the same on both sides, and its side."""

    job: int
    side: str  # old | new


def turns(
    cases: Sequence[Hashable], replicates: Sequence[int], seed: int, shuffled: bool
) -> list[Turn]:
    """All processes of both sides, in order, of jobs with these cases and replicates.

    A block holds one process per case and side, those of equal replicate. The two sides of a case
    follow each other, so that a drift of the machine meets both. In every block half of the cases
    begin with the old side, chosen at random; the next block turns all of them round, so that each
    case begins with either side equally often. `shuffled`: cases are in random order within blocks.
    """
    source = random.Random(seed)
    numbers = sorted(range(len(cases)), key=lambda number: replicates[number])
    ordered: list[Turn] = []
    old_first: dict[Hashable, bool] = {}
    for block, (_, members) in enumerate(groupby(numbers, key=lambda number: replicates[number])):
        jobs = list(members)
        before = old_first if block % 2 else {}
        drawn = _halves(len(jobs), source)
        old_first = {
            cases[job]: not before[cases[job]] if cases[job] in before else one
            for job, one in zip(jobs, drawn, strict=True)
        }
        if shuffled:
            source.shuffle(jobs)
        for job in jobs:
            sides = SIDES if old_first[cases[job]] else SIDES[::-1]
            ordered += [Turn(job, side) for side in sides]
    return ordered


def _halves(count: int, source: random.Random) -> list[bool]:
    """As many True as False, in random order; of an odd count one more of either."""
    more = source.random() < 0.5
    values = [(place % 2 == 0) == more for place in range(count)]
    source.shuffle(values)
    return values
