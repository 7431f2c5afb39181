"""Rows measured on the simulated device, whose speedup is planted: undisturbed and disturbed ones.

Each row draws its noise and the strength of its disturbance anew, from none to the largest.
"""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from unittest.mock import patch

from modescope.analysis.derive.flags import touched
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.timing.paired import play_pairs
from tests.helpers import made_up_records
from tests.helpers.simulated import SimulatedDevice, step

SPEEDUP = 1.05
CALL_S = 10e-3  # so long that one call settles, which keeps the simulation short
ROUND_S = 8 * CALL_S  # two blocks of a call of the other step, an untimed call and two timed ones
RUN_S = 100 * ROUND_S
BUDGET = replace(
    made_up_records.BUDGET, block_s=2 * CALL_S, min_rounds=60, max_rounds=120, timed_max_s=1e9
)
LEAST_NOISE, MOST_NOISE = 0.002, 0.02  # standard deviation of single calls

Course = Callable[[float], float]
"""A factor on the time of a call that starts at a given second; asked in the order of time."""


@dataclass(frozen=True)
class World:
    """What lengthens calls beside their noise, drawn for one row.

    `machine` lengthens the calls of both sides, `case` those of the case alone. `second_block`: a
    factor on the calls of both sides in the second block of each round.
    """

    machine: Course = lambda now_s: 1.0
    case: Course = lambda now_s: 1.0
    second_block: float = 1.0


@dataclass(frozen=True)
class SimulatedRow:
    """What a row would report."""

    flags: tuple[str, ...]
    covers: bool  # whether the interval contains the planted speedup

    @property
    def remarks(self) -> tuple[str, ...]:
        """Its flags that make the speedup doubtful."""
        figures = zip(self.flags, touched(self.flags), strict=True)
        return tuple(flag for flag, figure in figures if figure == "speedup")


def _two_states(source: random.Random, share: float, dwell_s: float) -> Callable[[float], bool]:
    """Whether the second of two states holds, for `share` of the time; it lasts `dwell_s`."""
    lasts_s = (dwell_s * (1 - share) / max(share, 1e-9), dwell_s)
    state = source.random() < share
    until_s = source.expovariate(1 / lasts_s[state])

    def holds(now_s: float) -> bool:
        nonlocal state, until_s
        while now_s >= until_s:
            state = not state
            until_s += source.expovariate(1 / max(lasts_s[state], 1e-9))
        return state

    return holds


def _wandering(source: random.Random, spread: float, memory_s: float) -> Course:
    """exp of a stationary process with this standard deviation, whose correlation fades by 1/e."""
    every_s = CALL_S / 2
    kept = math.exp(-every_s / memory_s)
    value, at_s = source.gauss(0.0, spread), 0.0

    def factor(now_s: float) -> float:
        nonlocal value, at_s
        while at_s < now_s:
            value = kept * value + source.gauss(0.0, spread * math.sqrt(1 - kept**2))
            at_s += every_s
        return math.exp(value)

    return factor


def _drift(source: random.Random) -> World:
    """The case becomes slower, or faster, by up to 4 % while it is measured."""
    change = source.uniform(-0.04, 0.04)
    return World(case=lambda now_s: 1 + change * now_s / RUN_S)


def _two_levels(source: random.Random) -> World:
    """The case is up to 5 % slower, for up to half of the time."""
    more, share = source.uniform(0.0, 0.05), source.uniform(0.0, 0.5)
    slow = _two_states(source, share, ROUND_S)
    return World(case=lambda now_s: 1 + more * slow(now_s))


def _autocorrelated(source: random.Random) -> World:
    """The time of the case wanders by up to 2 %, for up to ten rounds in one direction."""
    spread, rounds = source.uniform(0.0, 0.02), source.uniform(0.1, 10.0)
    return World(case=_wandering(source, spread, rounds * ROUND_S))


def _order(source: random.Random) -> World:
    """The second block of a round is up to 4 % slower, whichever side it times."""
    return World(second_block=1 + source.uniform(0.0, 0.04))


def _contention(source: random.Random) -> World:
    """Another program takes half of the processor, for up to half of the time."""
    busy = _two_states(source, source.uniform(0.0, 0.5), source.uniform(0.1, 5.0) * ROUND_S)
    return World(machine=lambda now_s: 1 + busy(now_s))


def _two_speeds(source: random.Random) -> World:
    """The clock has two speeds 1.75 apart, each for half a round to twenty rounds."""
    slow = _two_states(source, 0.5, source.uniform(0.5, 20.0) * ROUND_S)
    return World(machine=lambda now_s: 1.75 if slow(now_s) else 1.0)


def _interruptions(source: random.Random) -> World:
    """A call in a hundred takes three times as long."""
    return World(machine=lambda now_s: 3.0 if source.random() < 0.01 else 1.0)


Draw = Callable[[random.Random], World]

UNDISTURBED: Mapping[str, Draw] = {
    "noise": lambda source: World(),
    "interruptions": _interruptions,
    "a level that wanders": lambda source: World(
        machine=_wandering(source, source.uniform(0.01, 0.04), source.uniform(10, 100) * ROUND_S)
    ),
    "two speeds": _two_speeds,
}
"""What machines do on which nothing else runs. It slows both sides alike."""

DISTURBED: Mapping[str, Draw] = {
    "drift": _drift,
    "two levels": _two_levels,
    "autocorrelation": _autocorrelated,
    "order": _order,
    "contention": _contention,
}
"""What disturbs a comparison."""


@cache
def rows(draw: Draw, count: int) -> tuple[SimulatedRow, ...]:
    """So many rows, each with its own noise and its own strength of the disturbance."""
    with patch.object(gc, "collect", lambda: 0):  # which takes 0.1 s with torch loaded
        return tuple(_row(draw, seed) for seed in range(count))


def _row(draw: Draw, seed: int) -> SimulatedRow:
    source = random.Random(seed)
    noise = math.exp(source.uniform(math.log(LEAST_NOISE), math.log(MOST_NOISE)))
    world = draw(source)
    device = SimulatedDevice(queues=False, slowdown=world.machine)
    place = _blocks(world.second_block)

    def case() -> float:
        return source.lognormvariate(0.0, noise) * world.case(device.now_s) * next(place)

    def baseline() -> float:
        return source.lognormvariate(0.0, noise) * next(place)

    steps = [
        step(device, (call_s, 0.0), scale=scale)
        for call_s, scale in ((CALL_S / SPEEDUP, case), (CALL_S, baseline))
    ]
    played = play_pairs(steps[0], steps[1], device, BUDGET, seed, (CALL_S, CALL_S))
    rounds = (played.latency_rounds_s, played.baseline_latency_rounds_s, played.case_ran_first)
    found = estimates.speedup(*rounds)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return SimulatedRow(diagnostics.flags(*rounds), found.low <= SPEEDUP <= found.high)


def _blocks(second: float) -> Iterator[float]:
    """The factor of each call: 1 in the first block of a round, `second` in the other."""
    while True:
        yield from (1.0,) * 4
        yield from (second,) * 4
