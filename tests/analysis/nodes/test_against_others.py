"""Which place is called slower, on simulated times whose differences are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from modescope.analysis.nodes.against_others import (
    ALIKE,
    FASTER,
    LIMIT,
    SLOWER,
    TOO_FEW,
    Difference,
    differences,
    judged,
    spread_between,
    spread_within,
)
from modescope.analysis.nodes.levels import Readings, levels

NODES = 8
STUDIES = 400


@dataclass(frozen=True)
class Clock:
    """Simulated readings: levels of works, of nodes and of processes, as logarithms of seconds."""

    spread: float  # between processes
    works: int = 10
    modes: int = 10  # processes of each work; each runs on a random node
    sentinels: int = 1  # processes of one further work on every node
    slow: tuple[float, ...] = ()  # of the first nodes
    restless: float = 1.0  # factor of the last node's spread

    def study(self, source: np.random.Generator) -> list[Difference]:
        work = np.repeat(np.arange(self.works), self.modes)
        node = source.integers(0, NODES, len(work))
        work = np.append(work, np.full(NODES * self.sentinels, self.works))
        node = np.append(node, np.tile(np.arange(NODES), self.sentinels))
        level = np.zeros(NODES)
        level[: len(self.slow)] = np.log1p(self.slow)
        spread = np.full(NODES, self.spread)
        spread[-1] *= self.restless
        of_work = source.normal(-9, 2, self.works + 1)
        logs = of_work[work] + level[node] + source.normal(0, spread[node])
        return differences(Readings(node, work, logs))

    def named(self) -> list[list[int]]:
        """The nodes that are called slower, for each of STUDIES."""
        source = np.random.default_rng(round(self.spread * 1e4) + self.works)
        return [
            [node for node, one in enumerate(self.study(source)) if one.verdict == SLOWER]
            for _ in range(STUDIES)
        ]


SPREADS = (
    pytest.param(0.004, marks=pytest.mark.full), 0.01, pytest.param(0.02, marks=pytest.mark.full),
)  # fmt: skip


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(
    "rest",
    [{}, *(pytest.param(each, marks=pytest.mark.full)
           for each in ({"restless": 3.0}, {"works": 1, "modes": 24}))],
    ids=str,
)  # fmt: skip
def test_of_equal_nodes_at_most_5_percent_of_studies_name_one(
    spread: float, rest: dict[str, float]
) -> None:
    named = Clock(spread, **rest).named()  # type: ignore[arg-type]
    assert sum(map(bool, named)) / STUDIES <= 0.05


@pytest.mark.parametrize("spread", SPREADS)
def test_a_node_that_is_5_percent_slow_is_found_in_90_percent_of_studies(spread: float) -> None:
    named = Clock(spread, slow=(0.05,)).named()
    assert sum(0 in each for each in named) / STUDIES >= 0.9
    assert sum(each not in ([], [0]) for each in named) / STUDIES <= 0.05


@pytest.mark.full
def test_two_slow_nodes_do_not_hide_each_other() -> None:
    named = Clock(0.01, slow=(0.05, 0.15)).named()
    assert sum(each == [0, 1] for each in named) / STUDIES >= 0.9


def test_the_stated_difference_is_found_in_80_percent_of_studies() -> None:
    """A node that is slower as a whole has the same interval, moved by the difference."""
    source = np.random.default_rng(5)
    found = [one for _ in range(STUDIES) for one in Clock(0.01).study(source)]
    needed = [LIMIT - one.low for one in found]
    enough = np.array([one.detectable for one in found]) > needed
    assert enough.mean() == pytest.approx(0.8, abs=0.04)


@pytest.mark.full
def test_the_intervals_of_all_nodes_hold_together() -> None:
    source = np.random.default_rng(6)
    missed = 0
    for _ in range(STUDIES):
        found = Clock(0.01).study(source)
        missed += any(one.low > 0 or one.high < 0 for one in found)
    assert missed / STUDIES <= 0.06


TWO = np.repeat([0, 1], 6)
SAME_WORK = np.zeros(12, dtype=np.int64)
JITTER = np.tile([-0.002, -0.001, 0.0, 0.0, 0.001, 0.002], 2)


def test_of_two_nodes_one_is_slower_and_the_other_faster() -> None:
    slow, fast = differences(Readings(TWO, SAME_WORK, JITTER + np.where(TWO == 0, np.log(1.05), 0)))
    assert (slow.verdict, fast.verdict) == (SLOWER, FASTER)
    assert np.exp(slow.value) == pytest.approx(1.05)
    assert fast.value == pytest.approx(-slow.value)
    assert slow.readings == 6


def test_less_than_1_percent_is_no_difference() -> None:
    found = differences(Readings(TWO, SAME_WORK, JITTER / 10 + np.where(TWO == 0, 0.005, 0)))
    assert [one.verdict for one in found] == [ALIKE, ALIKE]


def test_nodes_are_compared_in_the_same_work_alone() -> None:
    """The second node measured short works, which says nothing about its speed."""
    apart = differences(Readings(TWO, TWO, JITTER - 3 * TWO))
    assert [(one.verdict, one.readings) for one in apart] == [(TOO_FEW, 0)] * 2
    work = np.tile([0, 0, 1], 4)
    mixed = differences(Readings(TWO, work, JITTER + np.where(work == 1, 3.0, 0)))
    assert [one.verdict for one in mixed] == [ALIKE, ALIKE]


def test_two_processes_are_too_few() -> None:
    place = np.array([0] * 9 + [1] * 2)
    logs = np.append(np.tile(JITTER[:3], 3), [0.1, 0.1])
    found = differences(Readings(place, np.zeros(11, dtype=np.int64), logs))
    assert found[1] == Difference(2, TOO_FEW)
    assert found[0].readings == 9


def test_no_readings_are_no_differences() -> None:
    nothing = np.array([], dtype=np.int64)
    readings = Readings(nothing, nothing, nothing.astype("float64"))
    assert judged(readings, levels(readings, nothing)) == []


def test_spreads_within_and_between_nodes() -> None:
    source = np.random.default_rng(7)
    place = np.repeat(np.arange(NODES), 50)
    work = np.tile(np.arange(5), 80)
    level = source.normal(0, 0.02, NODES)
    logs = 3.0 * work + level[place] + source.normal(0, 0.005, len(place))
    readings = Readings(place, work, logs)
    assert spread_within(readings) == pytest.approx(0.005, rel=0.1)
    assert spread_between(readings) == pytest.approx(level.std(ddof=1), rel=0.1)
    assert spread_within(Readings(np.arange(3), np.arange(3), np.zeros(3))) is None


@pytest.mark.parametrize(
    "readings", [6, *(pytest.param(each, marks=pytest.mark.full) for each in (3, 12))]
)
@pytest.mark.parametrize("between", [0.0, 0.02])
def test_the_spread_between_nodes_lacks_the_noise_of_their_means(
    readings: int, between: float
) -> None:
    """In the mean over studies; of equal nodes, half of the studies show none at all."""
    source = np.random.default_rng(8)
    place = np.repeat(np.arange(NODES), readings)
    work = np.zeros(len(place), dtype=np.int64)
    found = [
        spread_between(
            Readings(
                place,
                work,
                source.normal(0, between, NODES)[place] + source.normal(0, 0.03, len(place)),
            )
        )
        for _ in range(STUDIES)
    ]
    squares = np.array(found, dtype="float64") ** 2
    if between:
        assert np.sqrt(squares.mean()) == pytest.approx(between, rel=0.15)
    else:
        assert np.median(squares) <= 0.005**2
        assert (squares == 0).mean() >= 0.4


def test_between_nodes_is_unknown_without_a_spread_within_one() -> None:
    one_each = Readings(np.arange(3), np.zeros(3, dtype=np.int64), np.arange(3.0))
    assert spread_between(one_each) is None
