"""The order of processes: blocks, pairs, and which side begins."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from modescope.bench.versus.schedule import Turn, turns


def jobs(cases: int, blocks: int) -> tuple[list[str], list[int]]:
    """Cases and replicates of jobs, in the order of a sweep: all replicates of a case in a row."""
    numbers = [(f"case {case}", block) for case in range(cases) for block in range(blocks)]
    return [case for case, _ in numbers], [block for _, block in numbers]


def pairs(order: list[Turn]) -> list[tuple[Turn, Turn]]:
    return list(zip(order[::2], order[1::2], strict=True))


@pytest.mark.parametrize("shuffled", [True, False])
@pytest.mark.parametrize(("cases", "blocks"), [(1, 1), (1, 5), (4, 3), (5, 4), (7, 5)])
def test_every_process_has_one_turn_beside_its_partner(
    cases: int, blocks: int, shuffled: bool
) -> None:
    named, replicates = jobs(cases, blocks)
    order = turns(named, replicates, 0, shuffled)
    assert Counter(order) == Counter(
        Turn(job, side) for job in range(cases * blocks) for side in ("old", "new")
    )
    for one, other in pairs(order):
        assert one.job == other.job
        assert {one.side, other.side} == {"old", "new"}
    assert [replicates[turn.job] for turn in order] == sorted(replicates * 2)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("cases", "blocks"), [(1, 6), (4, 6), (5, 5), (7, 2)])
def test_each_side_begins_equally_often_in_every_block_and_case(
    cases: int, blocks: int, seed: int
) -> None:
    named, replicates = jobs(cases, blocks)
    begins = [first for first, _ in pairs(turns(named, replicates, seed, True))]
    keys: list[tuple[list[Any], int]] = [(replicates, cases), (named, blocks)]
    for key, count in keys:
        old = Counter(key[turn.job] for turn in begins if turn.side == "old")
        for group in set(key):
            assert abs(2 * old[group] - count) <= 1, group


def test_the_order_is_random_and_follows_the_seed() -> None:
    named, replicates = jobs(6, 4)
    orders = [turns(named, replicates, seed, True) for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    begins = {
        tuple(turn.side for turn in turns(*jobs(4, 1), seed, False))[::2] for seed in range(40)
    }
    assert len(begins) == 6  # every way in which two of four cases begin with the old side
    first = {turns(*jobs(1, 1), seed, True)[0].side for seed in range(20)}
    assert first == {"old", "new"}


def test_given_order_keeps_the_cases_within_each_block() -> None:
    named, replicates = jobs(3, 2)
    order = turns(named, replicates, 0, shuffled=False)
    assert [turn.job for turn in order] == [0, 0, 2, 2, 4, 4, 1, 1, 3, 3, 5, 5]


def test_cases_with_fewer_replicates_than_others_have_their_turns() -> None:
    order = turns(["a", "a", "b", "b", "b"], [0, 1, 0, 1, 2], 0, True)
    assert Counter(turn.job for turn in order) == Counter(dict.fromkeys(range(5), 2))
    assert all(one.job == other.job for one, other in pairs(order))
    assert {order[-1].job, order[-2].job} == {4}
    assert all(a.job <= 3 for a, _ in pairwise(order[:8]))
