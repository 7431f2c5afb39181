"""A flag about the speedup is deserved: rows with it miss the truth more often.

Rounds are drawn, so the true speedup is known. Each row draws its noise and the strength of its
disturbance anew, from none to the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.stats
from numpy.random import Generator
from numpy.typing import NDArray

from modescope.analysis.derive.flags import FLAGS, Doubted
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.stats.diagnostics import DIAGNOSTICS

pytestmark = pytest.mark.full

COUNT = 600  # rows of each kind
ENOUGH = 80  # rows with a flag, to say how often they miss the truth
ROUNDS, SPEEDUP = 100, 1.05
BLOCKS = 2 * ROUNDS  # a block of either side in each round, in the order of time

ABOUT_THE_SPEEDUP = [flag for flag in DIAGNOSTICS if FLAGS[flag].touches is Doubted.SPEEDUP]
ABOUT_TIMES = [flag for flag in DIAGNOSTICS if flag not in ABOUT_THE_SPEEDUP]

Numbers = NDArray[np.float64]
Course = Callable[[Generator], Numbers]
"""ln of a factor on the time of each block."""


def _wander(source: Generator, spread: float, blocks: float) -> Numbers:
    """A stationary process with this standard deviation, whose correlation fades by 1/e."""
    kept = math.exp(-1 / blocks)
    values = [source.normal(0, spread)]
    while len(values) < BLOCKS:
        values.append(kept * values[-1] + source.normal(0, spread * math.sqrt(1 - kept**2)))
    return np.array(values)


def _levels(source: Generator) -> Numbers:
    """Longer by up to 5 % for up to half of the time; a level lasts two blocks."""
    share = source.uniform(0, 0.5)
    changes = 0.5 * share / (1 - share), 0.5
    states = [bool(source.random() < share)]
    while len(states) < BLOCKS:
        states.append(states[-1] != (source.random() < changes[states[-1]]))
    return np.array(states, np.float64) * source.uniform(0, math.log(1.05))


DISTURBED: Mapping[str, Course] = {
    "drift": lambda source: np.linspace(0, source.uniform(-0.04, 0.04), BLOCKS),
    "two levels": _levels,
    "autocorrelation": lambda source: _wander(
        source, source.uniform(0, 0.02), source.uniform(0.2, 20)
    ),
    "order": lambda source: np.tile([0.0, source.uniform(0, 0.04)], ROUNDS),
}
"""What disturbs a comparison: the first three disturb the case alone."""
OF_THE_CASE = ("drift", "two levels", "autocorrelation")


@dataclass(frozen=True)
class Row:
    flags: tuple[str, ...]
    misses: bool  # whether the interval leaves out the true speedup

    @property
    def remarks(self) -> list[str]:
        """The flags that make the speedup doubtful."""
        return [flag for flag in self.flags if flag in ABOUT_THE_SPEEDUP]


@cache
def rows(name: str) -> Sequence[Row]:
    return [_row(name, seed) for seed in range(COUNT)]


def _row(name: str, seed: int) -> Row:
    source = np.random.default_rng(seed)
    noise = math.exp(source.uniform(math.log(0.002), math.log(0.02))) / math.sqrt(2)
    course = DISTURBED[name](source)
    case_first = source.permutation(np.arange(ROUNDS) % 2 == 0)
    place = 2 * np.arange(ROUNDS)
    case, baseline = source.normal(0, noise, (2, ROUNDS))
    case += course[place + ~case_first] - math.log(SPEEDUP)
    baseline += 0 if name in OF_THE_CASE else course[place + case_first]
    rounds = np.exp(case), np.exp(baseline), case_first
    found = estimates.speedup(*rounds)
    return Row(diagnostics.flags(*rounds), not found.low <= SPEEDUP <= found.high)


def _misses(measured: Sequence[Row]) -> int:
    return sum(row.misses for row in measured)


@pytest.mark.parametrize("flag", ABOUT_THE_SPEEDUP)
def test_a_row_with_a_remark_misses_the_truth_more_often(flag: str) -> None:
    """Than a row without any, under each disturbance that raises the flag."""
    raised_by = []
    for name in DISTURBED:
        flagged = [row for row in rows(name) if flag in row.remarks]
        others = [row for row in rows(name) if not row.remarks]
        if len(flagged) < ENOUGH:
            continue
        raised_by.append(name)
        counts = [(_misses(some), len(some) - _misses(some)) for some in (flagged, others)]
        assert scipy.stats.fisher_exact(counts, alternative="greater").pvalue < 0.01, name
    assert raised_by


@pytest.mark.parametrize("flag", ABOUT_TIMES)
def test_a_flag_about_times_says_nothing_against_the_speedup(flag: str) -> None:
    every = [row for name in DISTURBED for row in rows(name)]
    flagged = [row for row in every if flag in row.flags and not row.remarks]
    assert len(flagged) >= ENOUGH
    assert _misses(flagged) <= 0.1 * len(flagged)
