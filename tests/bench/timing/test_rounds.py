"""The engine of rounds, on simulated time: orders, how blocks begin, and when rounds end."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, pairwise

import pytest

from modescope.bench.devices.devices import CallSequence, Device, Step
from modescope.bench.timing import rounds, timers
from modescope.bench.timing.rounds import Clock, Round, RoundOrder, Side
from modescope.bench.timing.timers import Timing
from tests.helpers.simulated import Placements, SimulatedDevice, recording, settling, step

CALL_S = 1e-3


def clock(*steps: Step, name: str = "latency", calls: int = 1, settling_calls: int = 2) -> Clock:
    return Clock(name, tuple(Side(each, timers.latency, calls, settling_calls) for each in steps))


def idle() -> None:
    """A step that does nothing."""


THREE = (clock(idle, idle), clock(idle), clock(idle, idle))
BLOCKS = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]


def drawn(count: int, seed: int = 0, clocks: Sequence[Clock] = THREE) -> list[RoundOrder]:
    return rounds.orders(clocks, count, random.Random(seed))


def play(*clocks: Clock, device: Device, count: int = 4, deadline: float = 1e9) -> list[Round]:
    return rounds.play(clocks, drawn(count, clocks=clocks), device, deadline)


@pytest.mark.parametrize("seed", range(5))
def test_a_round_has_a_block_of_every_side_with_the_sides_of_a_clock_together(seed: int) -> None:
    for order in drawn(10, seed):
        assert sorted(order) == BLOCKS
        for place in (0, 2):
            first, second = (i for i, block in enumerate(order) if block[0] == place)
            assert second == first + 1


@pytest.mark.parametrize("count", [2, 12, 24])
@pytest.mark.parametrize(("one", "other"), list(combinations(BLOCKS, 2)))
def test_of_any_two_blocks_each_is_first_as_often_and_as_far_ahead(
    count: int, one: tuple[int, int], other: tuple[int, int]
) -> None:
    for seed in range(5):
        ahead = [order.index(other) - order.index(one) for order in drawn(count, seed)]
        assert sum(each > 0 for each in ahead) == count // 2
        assert sum(ahead) == 0


def test_an_odd_number_of_orders_is_balanced_but_for_one() -> None:
    for seed in range(20):
        first = sum(order.index((0, 0)) < order.index((0, 1)) for order in drawn(5, seed))
        assert first in (2, 3)


def test_orders_are_irregular() -> None:
    """Of 24 orders that are possible, each comes up, and its mirror image seldom follows it."""
    many = drawn(100)
    assert drawn(100) == many != drawn(100, seed=1)
    assert len(set(many)) == 24
    assert sum(later == earlier[::-1] for earlier, later in pairwise(many)) < 15


def test_the_recorded_order_is_the_played_one() -> None:
    device, log = SimulatedDevice(), list[str]()
    pair = clock(recording(device, log, "C"), recording(device, log, "B"))
    played = play(pair, clock(recording(device, log, "P")), device=device, count=20)
    # a call of the other step (of itself where there is none), two untimed ones, and one timed
    blocks = {(0, 0): "BCCC", (0, 1): "CBBB", (1, 0): "PPPP"}
    assert "".join(log) == "".join(blocks[block] for each in played for block in each.order)
    assert {each.case_first for each in played} == {True, False}
    for each in played:
        assert each.case_first == (each.order.index((0, 0)) < each.order.index((0, 1)))


def test_series_take_turns_and_each_timed_call_follows_its_previous_one() -> None:
    device, log = SimulatedDevice(), list[str]()
    placements = Placements(log)
    sides = (
        CallSequence(
            tuple(placements.needed_by(recording(device, log, f"{of}{n}")) for n in range(3))
        )
        for of in "cb"
    )
    pair = replace(clock(*sides), redraw=placements.redraw, turns=3)
    played = play(pair, device=device, count=20)
    case_first = "| c2c0 b2b0 b0b1 c0c1 b1b2 c1c2".replace(" ", "")
    swapped = case_first.translate(str.maketrans("cb", "bc"))
    expected = (case_first if each.case_first else swapped for each in played)
    assert "".join(log) == "".join(expected)
    assert {each.case_first for each in played} == {True, False}
    assert [rounds.medians(played, 0, side) for side in (0, 1)] == [pytest.approx((3e-3,) * 20)] * 2


def test_a_long_series_settles_with_one_call_and_a_short_one_as_a_whole() -> None:
    device, log = SimulatedDevice(), list[str]()
    series = CallSequence(tuple(recording(device, log, f"c{n}") for n in range(2)))
    for settling_calls, expected in ((1, "c1c1c0c1"), (2, "c0c1" * 4)):
        log.clear()
        play(clock(series, settling_calls=settling_calls), device=device, count=1)
        assert "".join(log) == expected


def test_a_value_is_the_median_of_a_block_without_untimed_calls() -> None:
    """Of nine calls, one of the other step and two untimed ones are slow, and two timed ones."""
    device = SimulatedDevice(queues=False)
    slow_at_first = step(device, (1.0, 0.0), scale=settling(5, 9.0))
    (played,) = play(clock(slow_at_first, calls=6), device=device, count=1)
    assert rounds.medians([played], 0, 0) == (1.0,)
    assert played.case_calls_s == pytest.approx((9.0, 9.0, 1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize(("limit_s", "count"), [(0.0, 1), (7.9, 1), (8.0, 2), (11.9, 2)])
def test_rounds_end_where_the_next_would_be_late(limit_s: float, count: int) -> None:
    """A round of four calls takes 4 s; the first is always run, unless it begins too late."""
    device = SimulatedDevice(queues=False)
    one = clock(step(device, (1.0, 0.0)))
    assert len(play(one, device=device, deadline=limit_s)) == count
    assert play(one, device=device, deadline=device.now_s - 1.0) == []


def answering(*answers: Timing) -> Callable[[Step, Device, int], Timing]:
    left = iter(answers)
    return lambda *_: next(left)


def test_a_block_without_a_value_keeps_its_reason() -> None:
    one, none = Timing((1.0, 5.0, 2.0)), Timing((), "too late")
    fails = Clock("device", (Side(idle, answering(one, one, none, one), 1, 1),))
    played = play(fails, clock(idle), device=SimulatedDevice())
    assert rounds.medians(played[:2], 0, 0) == (2.0, 2.0)
    assert played[2].timings[0][0] == none
    assert len(rounds.medians(played, 1, 0)) == len(played) == 4


def test_samples_are_thinned_evenly() -> None:
    assert rounds.thin([1.0, 3.0, 2.0]) == (1.0, 3.0, 2.0)
    many = rounds.thin([float(i) for i in range(2 * rounds.MAX_SINGLE_CALLS)])
    assert many == tuple(map(float, range(0, 2 * rounds.MAX_SINGLE_CALLS, 2)))


@pytest.mark.parametrize(
    ("expected_s", "calls"), [(50e-6, 3), (3e-3, 3), (4e-3, 2), (9e-3, 1), (0.1, 1), (0.0, 1)]
)
def test_a_long_step_settles_with_one_call(expected_s: float, calls: int) -> None:
    assert rounds.settling_calls(expected_s) == calls


def test_garbage_is_collected_before_timing_and_not_meanwhile() -> None:
    """Afterwards it is as before."""

    class Node:
        itself: object

    node = Node()
    node.itself = node
    gone = weakref.ref(node)
    gc.disable()
    try:
        del node
        with rounds.quiet_gc():
            assert (gone(), gc.isenabled()) == (None, False)
        assert not gc.isenabled()
    finally:
        gc.enable()
    with pytest.raises(ZeroDivisionError), rounds.quiet_gc():
        assert gc.isenabled() / 0
    assert gc.isenabled()
