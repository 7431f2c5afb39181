"""Compares two steps: warm-up to a steady state, then paired rounds in random order.

On a machine that drifts, timing A and then B compares two moments; strict alternation is biased by
noise that repeats every other block. Here each round runs both in random order, and only ratios
within a round are compared.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from modescope.bench.devices.devices import Device, Step
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import Rounds
from modescope.bench.stats import estimates
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.timers import calls_for, latency, reading_cost

FIRST_CALLS = 3  # graph modes of torch.compile: one warms up, one records, one replays
STEADY_WITHIN = 0.01
PILOT_PATIENCE = 10.0  # times the cap: a slow step may overrun it, as intervals need a pilot
SETTLING_CALLS = 3
"""Untimed calls after each switch, as one call does not fill all caches: after one, two, three and
six of them a 0.8 ms step read 790, 760, 755 and 750 us."""
SETTLING_S = 0.01  # settling takes no longer: a long step fills the caches with its first call
MAX_SINGLE_CALLS = 4000  # enough for a 99th percentile; more would only make files larger


@dataclass(frozen=True)
class WarmUp:
    """The time until the steps were steady, and their time per call from then on."""

    seconds: float
    steady: bool
    per_call_s: tuple[float, ...]  # one per step


Seconds = tuple[float, ...]


@dataclass(frozen=True)
class _Side:
    step: Step
    settling_calls: int
    calls: int  # timed ones


@dataclass(frozen=True)
class _Round:
    case_first: bool
    medians_s: Seconds  # one per side, the case first
    case_calls_s: Seconds


def warm_up(steps: Sequence[Step], device: Device, budget: Budget) -> WarmUp:
    """Calls the steps in turn until each is steady; gives up after `budget.warmup_max_s`.

    Steady: the median of the last third of the block medians is within 1 % of that of the third
    before it. Every step is called at least three times.
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
    """Paired rounds of case and baseline; without a baseline, rounds of the case alone.

    A pilot decides once how many rounds bring the speedup's interval to `budget.half_width`, within
    the budget's rounds and time, whether or not the difference is significant: stopping at
    significance gives 20 % false alarms. `per_call_s`: expected duration of each step, as from
    `warm_up`; `seed`: of the order within rounds; `redraw`: see `bench.timing.memory_layout`.
    """
    steps = (case,) if baseline is None else (case, baseline)
    cost_s = reading_cost(device.clock)
    sides = [
        _Side(step, settling(expected_s), calls_for(budget.block_s, expected_s, cost_s))
        for step, expected_s in zip(steps, per_call_s, strict=True)
    ]
    shuffle = random.Random(seed)
    with quiet_gc():
        start = device.clock()
        pilot = _orders(budget.pilot_rounds, shuffle)
        patience = start + PILOT_PATIENCE * budget.timed_max_s
        played = _play(sides, pilot, device, redraw, patience)
        goal = _goal(played, device.clock() - start, budget)
        rest = _orders(goal - len(played), shuffle)
        played += _play(sides, rest, device, redraw, start + budget.timed_max_s)
        seconds = device.clock() - start
    case_s, baseline_s = _durations(played)
    return Rounds(
        timed_s=seconds,
        calls_per_round=sides[0].calls,
        latency_rounds_s=case_s,
        baseline_latency_rounds_s=baseline_s,
        case_ran_first=None if baseline is None else tuple(each.case_first for each in played),
        latency_calls_s=_thinned([call_s for each in played for call_s in each.case_calls_s]),
    )


def settling(expected_s: float) -> int:
    """The number of untimed calls before a step of this duration is timed again."""
    return max(1, min(SETTLING_CALLS, int(SETTLING_S / expected_s))) if expected_s > 0 else 1


@contextmanager
def quiet_gc() -> Iterator[None]:
    """Collects garbage first, then switches collection off within the block.

    Nothing is frozen, because unfreezing would undo the freeze with which a child starts
    (`bench.sweep.process.isolation`), and every later collection would take 0.2 s longer.
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
    """Whether the case goes first, per round: at random, but in half of the rounds.

    The balance cancels what favours one position, such as a load in every other block.
    """
    one_more = shuffle.random() < 0.5
    orders = [i % 2 == one_more for i in range(rounds)]
    shuffle.shuffle(orders)
    return orders


def _play(
    sides: Sequence[_Side],
    orders: Sequence[bool],
    device: Device,
    redraw: Redraw,
    deadline: float,
) -> list[_Round]:
    """Runs one round per order; stops early where the next would end after the deadline."""
    played: list[_Round] = []
    began = ended = device.clock()
    for case_first in orders:
        if ended + (ended - began) > deadline:
            break
        began = device.clock()
        played.append(_play_round(sides, case_first, device, redraw))
        ended = device.clock()
    return played


def _play_round(sides: Sequence[_Side], case_first: bool, device: Device, redraw: Redraw) -> _Round:
    """Both blocks begin alike: a redraw, one call of the other step, some untimed calls.

    Otherwise the first block of a round would follow either step and a redraw, the second always
    the other step: their times differed by up to 6 % because of caches and heap.
    """
    samples: list[Seconds] = [()] * len(sides)
    turns = list(enumerate(sides))[:: 1 if case_first else -1]
    for (place, each), (_, other) in zip(turns, reversed(turns), strict=True):
        placement = redraw()
        other.step()
        for _ in range(each.settling_calls):
            each.step()
        samples[place] = latency(each.step, device, each.calls).samples_s
        del placement
    return _Round(case_first, tuple(map(median, samples)), _thinned(samples[0]))


def _goal(played: Sequence[_Round], seconds: float, budget: Budget) -> int:
    """The number of rounds, estimated from the pilot; even if the budget allows, for balance."""
    needed = estimates.rounds_needed(
        *_durations(played), budget.half_width, budget.min_rounds, budget.max_rounds
    )
    affordable = int(budget.timed_max_s * len(played) / seconds)
    return min(needed + needed % 2, budget.max_rounds, affordable)


def _durations(played: Sequence[_Round]) -> tuple[Seconds, Seconds | None]:
    """Per round: the case's duration and the baseline's, None where there is no baseline."""
    case_s, *baseline_s = zip(*(each.medians_s for each in played), strict=True)
    return case_s, baseline_s[0] if baseline_s else None


def _thinned(samples: Sequence[float]) -> Seconds:
    """At most MAX_SINGLE_CALLS of the samples, evenly spaced, in order."""
    kept = min(len(samples), MAX_SINGLE_CALLS)
    return tuple(samples[i * len(samples) // kept] for i in range(kept))
