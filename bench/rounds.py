"""A fair race between two steps: warm-up to a steady state, then randomised paired rounds.

On a machine that drifts, A then B compares two moments; strict alternation fails against noise
that repeats every other block. Here each round runs both in random order, and only the ratio
within a round is compared.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from bench import stats
from bench.devices import Device, Step
from bench.placement import Redraw
from bench.records import Budget
from bench.timers import calls_for, latency, reading_cost

FIRST_CALLS = 3  # graph modes of torch.compile: one warms up, one records, one replays
STEADY_WITHIN = 0.01
PILOT_PATIENCE = 10.0  # a slow step may overrun the cap: less than the pilot gives no interval
SETTLING_CALLS = 3
"""Untimed calls after each switch. What one call finds in no cache, the next may not find either:
with one, two, three and six of them a 0.8 ms step read 790, 760, 755 and 750 us."""
SETTLING_S = 0.01  # a long step fills the caches with its first call
MAX_SINGLE_CALLS = 4000  # enough for a 99th percentile; more would only swell the files


@dataclass(frozen=True)
class WarmUp:
    """How long it took until the steps were steady, and their time per call from then on."""

    seconds: float
    steady: bool
    per_call_s: tuple[float, ...]  # one per step


@dataclass(frozen=True)
class Rounds:
    """Paired rounds; position i of every tuple but `calls_s` is round i."""

    case_s: tuple[float, ...]  # median latency of the case's calls
    baseline_s: tuple[float, ...] | None  # the same for the baseline
    case_first: tuple[bool, ...] | None  # None without a baseline
    calls_s: tuple[float, ...]  # single calls of the case in order, evenly thinned
    calls_per_round: int  # timed calls of the case
    seconds: float  # all rounds together


Samples = tuple[float, ...]


@dataclass(frozen=True)
class _Contestant:
    step: Step
    settling_calls: int
    calls: int  # timed ones


@dataclass(frozen=True)
class _Round:
    case_first: bool
    medians_s: Samples  # one per contestant, the case first
    case_calls_s: Samples


def warm_up(steps: Sequence[Step], device: Device, budget: Budget) -> WarmUp:
    """Calls the steps in turns until each is steady; gives up after `budget.warmup_max_s`.

    Steady: of the block medians so far, those of the last third and of the third before it have
    medians within 1 % of each other. Every step is called at least three times.
    """
    cost_s = reading_cost(device.clock)
    start = device.clock()
    blocks = [list(latency(step, device, FIRST_CALLS).samples_s) for step in steps]
    while True:
        seconds = device.clock() - start
        steady = seconds >= budget.warmup_min_s and all(map(_is_steady, blocks))
        if steady or seconds >= budget.warmup_max_s:
            return WarmUp(seconds, steady, tuple(median(_windows(b)[1]) for b in blocks))
        for step, medians in zip(steps, blocks, strict=True):
            calls = calls_for(budget.block_s, medians[-1], cost_s)
            medians.append(median(latency(step, device, calls).samples_s))


def _windows(blocks: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    size = len(blocks) // 3
    return blocks[-2 * size : -size], blocks[-size:]


def _is_steady(blocks: Sequence[float]) -> bool:
    earlier, later = map(median, _windows(blocks))
    return abs(later - earlier) <= STEADY_WITHIN * earlier


def paired(
    case: Step,
    baseline: Step | None,
    device: Device,
    budget: Budget,
    seed: int,
    per_call_s: Sequence[float],
    redraw: Redraw = lambda: None,
) -> Rounds:
    """How long do case and baseline take, side by side? Without a baseline: the case alone.

    A pilot decides once how many rounds bring the speedup's interval to `budget.half_width`, within
    the budget's rounds and time. Whether the difference is significant is never looked at: stopping
    on it gives 20 % false alarms. `per_call_s` holds one expected duration per step, as from
    `warm_up`; `seed` decides the order within rounds; `redraw` places memory anew for each block
    (`bench.placement`).
    """
    steps = (case,) if baseline is None else (case, baseline)
    cost_s = reading_cost(device.clock)
    contestants = [
        _Contestant(step, settling(expected_s), calls_for(budget.block_s, expected_s, cost_s))
        for step, expected_s in zip(steps, per_call_s, strict=True)
    ]
    shuffle = random.Random(seed)
    with quiet_gc():
        start = device.clock()
        pilot = _orders(budget.pilot_rounds, shuffle)
        patience = start + PILOT_PATIENCE * budget.timed_max_s
        played = _play(contestants, pilot, device, redraw, patience)
        goal = _goal(played, device.clock() - start, budget)
        rest = _orders(goal - len(played), shuffle)
        played += _play(contestants, rest, device, redraw, start + budget.timed_max_s)
        seconds = device.clock() - start
    case_s, baseline_s = _durations(played)
    return Rounds(
        case_s=case_s,
        baseline_s=baseline_s,
        case_first=None if baseline is None else tuple(each.case_first for each in played),
        calls_s=_thinned([call_s for each in played for call_s in each.case_calls_s]),
        calls_per_round=contestants[0].calls,
        seconds=seconds,
    )


def settling(expected_s: float) -> int:
    """How many untimed calls of a step that takes so long come before it is timed again?"""
    return max(1, min(SETTLING_CALLS, int(SETTLING_S / expected_s))) if expected_s > 0 else 1


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection within: collected before, off, and as it was afterwards.

    Nothing is frozen here: while collection is off that changes nothing, and thawing would undo the
    freeze with which a child starts (`bench.isolation`) and cost every later collection 0.2 s.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _orders(rounds: int, shuffle: random.Random) -> list[bool]:
    """Whether the case goes first, per round: at random, but as often as not.

    The balance takes out what still favours one position, such as a load in every other block.
    """
    one_more = shuffle.random() < 0.5
    orders = [i % 2 == one_more for i in range(rounds)]
    shuffle.shuffle(orders)
    return orders


def _play(
    contestants: Sequence[_Contestant],
    orders: Sequence[bool],
    device: Device,
    redraw: Redraw,
    deadline: float,
) -> list[_Round]:
    """Plays a round per order; stops early where the next would end after the deadline."""
    played: list[_Round] = []
    began = ended = device.clock()
    for case_first in orders:
        if ended + (ended - began) > deadline:
            break
        began = device.clock()
        played.append(_play_round(contestants, case_first, device, redraw))
        ended = device.clock()
    return played


def _play_round(
    contestants: Sequence[_Contestant], case_first: bool, device: Device, redraw: Redraw
) -> _Round:
    """Both blocks begin alike: memory just placed, a call of the other step, some untimed ones.

    Otherwise the first block of a round would follow either step and a redraw, the second always
    the other step: their times differed by up to 6 % for the caches and the heap that they found.
    """
    samples: list[Samples] = [()] * len(contestants)
    turns = list(enumerate(contestants))[:: 1 if case_first else -1]
    for (place, each), (_, other) in zip(turns, reversed(turns), strict=True):
        placement = redraw()
        other.step()
        for _ in range(each.settling_calls):
            each.step()
        samples[place] = latency(each.step, device, each.calls).samples_s
        del placement
    return _Round(case_first, tuple(map(median, samples)), _thinned(samples[0]))


def _goal(played: Sequence[_Round], seconds: float, budget: Budget) -> int:
    """The number of rounds, judged from the pilot; even where the budget allows, for balance."""
    needed = stats.rounds_needed(
        *_durations(played), budget.half_width, budget.min_rounds, budget.max_rounds
    )
    affordable = int(budget.timed_max_s * len(played) / seconds)
    return min(needed + needed % 2, budget.max_rounds, affordable)


def _durations(played: Sequence[_Round]) -> tuple[Samples, Samples | None]:
    """Per round: the case's duration and the baseline's, None where there is no baseline."""
    case_s, *baseline_s = zip(*(each.medians_s for each in played), strict=True)
    return case_s, baseline_s[0] if baseline_s else None


def _thinned(samples: Sequence[float]) -> Samples:
    """At most MAX_SINGLE_CALLS of the samples, evenly spaced, in order."""
    kept = min(len(samples), MAX_SINGLE_CALLS)
    return tuple(samples[i * len(samples) // kept] for i in range(kept))
