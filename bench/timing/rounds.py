"""Plays rounds. In a round every timer (clock) times a block of calls, in random balanced order.

On a machine that drifts, timing A and then B compares two moments, and strict alternation is biased
by noise that repeats every other block. Here each round runs all blocks in random order, and only
times of the same round are compared.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from modescope.bench.devices.devices import CallSequence, Device, Step, pause_gc
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.timers import Timing

SETTLING_CALLS = 3
"""Untimed calls after each switch to another step, because one call does not fill all caches: after
one, two, three and six of them a 0.8 ms step read 790, 760, 755 and 750 us."""
MAX_SINGLE_CALLS = 4000  # enough for a 99th percentile; more would only make files larger
SETTLING_S = 0.01  # settling takes no longer: a long step fills the caches with its first call


@dataclass(frozen=True)
class Interruptions:
    """Counters of how often other programs took a core from this process.

    Only differences mean something. `stolen` may take so long that it cools caches: it is read
    before the untimed calls of a block, `switches` right before the timed ones.
    """

    switches: Callable[[], int] = lambda: 0
    stolen: Callable[[], int] = lambda: 0


UNWATCHED = Interruptions()


Timer = Callable[[Step, Device, int], Timing]
"""A function that times a number of calls of a step on a device, such as those of
`bench.timing.timers`."""


@dataclass(frozen=True)
class Side:
    """A step that a clock times in blocks of `calls` calls, with `timer`.

    `settling_calls`: the number of untimed calls before a block.
    """

    step: Step
    timer: Timer
    calls: int
    settling_calls: int


@dataclass(frozen=True)
class Clock:
    """A way to time calls: of the case, or of case and baseline directly after each other.

    `redraw`: called before each block, see `bench.timing.memory_layout`. `turns`: into how many
    parts two steps made of several calls (series) are cut, which are then timed in turns; with 1
    each block is timed as a whole.
    """

    name: str
    sides: tuple[Side, ...]  # the case's, then the baseline's if there is one
    redraw: Redraw = lambda: None
    turns: int = 1  # in which two series are timed: a part of the case's, one of the baseline's


Seconds = tuple[float, ...]

RoundOrder = tuple[tuple[int, int], ...]
"""The blocks of a round in order. A block is given by the index of its clock and of its side."""


@dataclass(frozen=True)
class Round:
    """The order of the blocks of one round, and what they measured."""

    order: RoundOrder
    timings: tuple[tuple[Timing, ...], ...]  # by clock and side: the median of a block's samples
    case_calls_s: Seconds  # samples of the first clock and side, thinned
    interruptions: int  # of the timed blocks of the first clock

    @property
    def case_first(self) -> bool:
        """Whether the first clock timed the case before the baseline."""
        return self.order.index((0, 0)) <= self.order.index((0, len(self.timings[0]) - 1))


def orders(clocks: Sequence[Clock], rounds: int, shuffle: random.Random) -> list[RoundOrder]:
    """Draws an order of blocks for each round: half of them random, the others their mirror images.

    Thus each of any two blocks comes first in half of the rounds, at the same distances. This
    cancels what favours one position, such as a load in every other block, and a steady drift.
    """
    drawn = [_draw_order(clocks, shuffle) for _ in range((rounds + 1) // 2)]
    both = [order for half in drawn for order in (half, half[::-1])]
    if len(both) > rounds:
        del both[-1 - (shuffle.random() < 0.5)]
    shuffle.shuffle(both)
    return both


def _draw_order(clocks: Sequence[Clock], shuffle: random.Random) -> RoundOrder:
    places = shuffle.sample(range(len(clocks)), len(clocks))
    sides = [range(len(clocks[place].sides)) for place in places]
    return tuple(
        (place, side)
        for place, its_sides in zip(places, sides, strict=True)
        for side in shuffle.sample(its_sides, len(its_sides))
    )


def play(
    clocks: Sequence[Clock],
    planned: Sequence[RoundOrder],
    device: Device,
    deadline: float,
    watch: Interruptions = UNWATCHED,
) -> list[Round]:
    """Plays a round for each order in `planned`; stops if the next would end after `deadline`.

    `deadline` is a reading of `device.clock`, in seconds. The first round is always played, unless
    the deadline has passed. `watch` counts interruptions, outside of the timed calls.
    """
    played: list[Round] = []
    began = ended = device.clock()
    for order in planned:
        if ended + (ended - began) > deadline:
            break
        began = device.clock()
        played.append(_round(clocks, order, device, watch))
        ended = device.clock()
    return played


def _round(
    clocks: Sequence[Clock], order: RoundOrder, device: Device, watch: Interruptions
) -> Round:
    """Plays one round. Each block begins with a redraw, a call of the other step and untimed calls.

    Without these, the first block of a pair would follow any step and the second always the other
    step: their times differed by up to 6 % because of caches and heap. Series that take turns share
    a redraw (new memory layout).
    """
    timings = [[Timing(())] * len(clock.sides) for clock in clocks]
    case_calls_s: Seconds = ()
    interruptions = 0
    for place, number in order:
        clock = clocks[place]
        stolen, switches = watch.stolen(), watch.switches()
        if clock.turns > 1:
            if order.index((place, number)) < order.index((place, 1 - number)):
                timings[place] = _take_turns(clock, number, device)
                interruptions += _since(stolen, switches, watch) if place == 0 else 0
            continue
        side, other = clock.sides[number], clock.sides[-1 - number]
        placement = clock.redraw()
        _settle(other, 1)
        _settle(side, side.settling_calls)
        switches = watch.switches()
        timing = side.timer(side.step, device, side.calls)
        interruptions += _since(stolen, switches, watch) if place == 0 else 0
        del placement
        middle_s = timing.median_s
        timings[place][number] = replace(timing, samples_s=() if middle_s is None else (middle_s,))
        if place == number == 0:
            case_calls_s = thin(timing.samples_s)
    return Round(order, tuple(map(tuple, timings)), case_calls_s, interruptions)


def _since(stolen: int, switches: int, watch: Interruptions) -> int:
    return watch.switches() - switches + watch.stolen() - stolen


def round_seconds(clock: Clock, per_call_s: Sequence[float]) -> float:
    """Returns how long a round of `clock` takes whose steps, by side, take `per_call_s` a call.

    It counts the calls that `_round` makes, of steps that are no series.
    """
    every = zip(clock.sides, per_call_s, reversed(per_call_s), strict=True)
    return sum(other_s + (side.settling_calls + side.calls) * s for side, s, other_s in every)


def _settle(side: Side, calls: int) -> None:
    """Makes `calls` untimed calls of the step, so that the calls timed next find warm caches.

    Of a long series (a step made of several calls) only the last call is made, because the series'
    own first calls fill the caches.
    """
    if isinstance(side.step, CallSequence) and side.settling_calls == 1:
        side.step.calls[-1]()
        return
    for _ in range(calls):
        side.step()


def _take_turns(clock: Clock, first: int, device: Device) -> list[Timing]:
    """Times the two series of `clock` part by part, because a machine's speed changes within them.

    `first`: index of the series that begins the first part. Returns a timing for each series, whose
    only sample is the sum of its parts. Which series begins a part follows the Thue-Morse sequence,
    which is balanced and has no period that a load could share. Before a part, the call that
    precedes it in its series is made untimed, so that each timed call follows the same call as in
    the whole series.
    """
    placement = clock.redraw()
    spent_s = [0.0, 0.0]
    for part in range(clock.turns):
        for number in (first, 1 - first)[:: -1 if part.bit_count() % 2 else 1]:
            side = clock.sides[number]
            assert isinstance(side.step, CallSequence)
            calls = side.step.calls
            begin, end = (len(calls) * edge // clock.turns for edge in (part, part + 1))
            calls[begin - 1]()
            spent_s[number] += side.timer(CallSequence(calls[begin:end]), device, 1).samples_s[0]
    del placement
    return [Timing((seconds,)) for seconds in spent_s]


def thin(samples: Sequence[float]) -> Seconds:
    """Returns at most MAX_SINGLE_CALLS of the samples, evenly spaced and in order."""
    kept = min(len(samples), MAX_SINGLE_CALLS)
    return tuple(samples[i * len(samples) // kept] for i in range(kept))


def medians(played: Sequence[Round], clock: int, side: int) -> Seconds:
    """Returns the median time per call, in seconds, that a clock measured in each round.

    `clock` is its index among the clocks that were played; `side` is 0 for the case, 1 for the
    baseline. That side must have been timed in every round.
    """
    timings = (round_.timings[clock][side] for round_ in played)
    return tuple(timing.samples_s[0] for timing in timings)


def settling_calls(expected_s: float) -> int:
    """Returns the number of untimed calls before a step that takes `expected_s` is timed again."""
    return max(1, min(SETTLING_CALLS, int(SETTLING_S / expected_s))) if expected_s > 0 else 1


@contextmanager
def quiet_gc() -> Iterator[None]:
    """Collects garbage first, then switches collection off within the block.

    Nothing is frozen (gc.freeze), because unfreezing would also undo the freeze with which a child
    process starts (`bench.sweep.isolation`), and every later collection would take 0.2 s longer.
    """
    gc.collect()
    with pause_gc():
        yield
