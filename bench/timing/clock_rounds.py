"""Reads all timers (clocks) of a warm call in shared rounds, so that their times are comparable.

On a machine whose speed changes by half, host time and latency that are measured one after the
other may differ by half. Here every round reads every clock.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from modescope.bench.devices.devices import Device, Step, untimed_s
from modescope.bench.records.columns.timing import Clocks
from modescope.bench.records.plans import Budget
from modescope.bench.timing import timers
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.paired import PILOT_PATIENCE, latency_clock
from modescope.bench.timing.rounds import (
    Clock,
    Round,
    Seconds,
    Side,
    medians,
    orders,
    play,
    quiet_gc,
    settling_calls,
)

EVENT_BLOCK_S = 500e-6
"""Length of a block between two device marks, as CUDA events resolve only about 0.5 µs."""

SLOPE_BLOCKS = 5  # a slope is a difference: the same certainty needs longer blocks

SHORTEST_S = 1e-6  # no kernel is shorter: limits the calls of a step without work

FEWER = 4  # a block that overfills the queue is repeated with a quarter of the calls

TOO_NOISY = "the difference between a longer and a shorter block is not above 0"

TOO_SHORT = "its device time is too short for the device's clock"

MOSTLY = 0.5
"""A clock that failed in more than this share of the rounds is left out; otherwise the rounds in
which it failed are."""

PREFIXES = ("", "baseline_")  # of the columns of a clock's sides


@dataclass(frozen=True)
class _Block:
    """The number of calls in a block whose device time is read, while its queue is held at first.

    `wanted`: how many calls take long enough to be timed well. `calls`: how many of them can be
    queued while the device is held; None if not even one can, for the `reason` given.
    """

    calls: int | None
    wanted: int
    reason: str | None = None


def read(
    steps: Sequence[Step],
    device: Device,
    budget: Budget,
    seed: int,
    per_call_s: Sequence[float],
    redraw: Redraw = lambda: None,
    others: Sequence[Clock] = (),
) -> Clocks:
    """Reads all clocks of warm steps: the case, and the baseline if there is a second step.

    `per_call_s`: about how long a call of each step takes; `redraw`: see
    `bench.timing.memory_layout`; `others`: further clocks to read, named as their columns. There
    are `budget.clock_rounds` rounds, fewer if they do not fit in `budget.timed_max_s`. The first
    `budget.pilot_rounds` may overrun that time, because intervals need them.
    """
    with quiet_gc():
        clocks = [*_case_clocks(steps[0], device, budget, per_call_s[0], redraw), *others]
        blocks = [
            _calls_that_fit(step, device, expected_s)
            for step, expected_s in zip(steps, per_call_s, strict=True)
        ]
        if blocks[0].calls is not None:
            clocks.append(_device_clock(steps, blocks, per_call_s, redraw))
        planned = orders(clocks, budget.clock_rounds, random.Random(seed))
        begun, patience_s = device.clock(), PILOT_PATIENCE * budget.timed_max_s
        played = play(clocks, planned[: budget.pilot_rounds], device, begun + patience_s)
        rest = planned[budget.pilot_rounds :]
        played += play(clocks, rest, device, begun + budget.timed_max_s)
    columns: dict[str, Any] = dict(_columns(clocks, played))
    isolated = columns.get("device_rounds_s") is not None
    return Clocks(
        **columns,
        pipelined_note=None
        if columns["pipelined_rounds_s"]
        else _reason(played, [clock.name for clock in clocks].index("pipelined"), TOO_NOISY),
        device_note=None if isolated else blocks[0].reason or _reason(played, -1, TOO_SHORT),
        device_calls=blocks[0].calls if isolated else None,
        device_calls_wanted=blocks[0].wanted if isolated else None,
    )


def _case_clocks(
    step: Step, device: Device, budget: Budget, expected_s: float, redraw: Redraw
) -> Iterator[Clock]:
    yield latency_clock("clocks_latency", [step], device, budget, [expected_s], redraw)
    cost_s = timers.reading_cost(device.clock)
    for name, timer, blocks in (
        ("host", timers.host, 1),
        ("pipelined", timers.pipelined, SLOPE_BLOCKS if device.queues else 1),
    ):
        call_s = expected_s + untimed_s(step)
        calls = timers.calls_for(blocks * budget.block_s, call_s, cost_s)
        yield Clock(name, (Side(step, timer, calls, settling_calls(expected_s)),), redraw)


def _device_clock(
    steps: Sequence[Step], blocks: Sequence[_Block], per_call_s: Sequence[float], redraw: Redraw
) -> Clock:
    sides = tuple(
        Side(step, timers.device_time, block.calls, settling_calls(expected_s))
        for step, block, expected_s in zip(steps, blocks, per_call_s, strict=True)
        if block.calls is not None
    )
    return Clock("device", sides, redraw)


def _columns(
    clocks: Sequence[Clock], played: Sequence[Round]
) -> Iterator[tuple[str, Seconds | None]]:
    """Yields each column's name and values; None for a clock that failed in most rounds.

    A round in which another clock failed is left out of all columns, so that they stay paired.
    """
    sides = [
        (place, side) for place, clock in enumerate(clocks) for side in range(len(clock.sides))
    ]
    failed = {block: sum(not _was_read(round_, block) for round_ in played) for block in sides}
    kept = [block for block in sides if failed[block] <= MOSTLY * len(played)]
    complete = [round_ for round_ in played if all(_was_read(round_, block) for block in kept)]
    for place, side in sides:
        values_s = medians(complete, place, side) if (place, side) in kept else ()
        # A slope may be noise, or 0 by a coarse clock.
        meaningful = values_s and median(values_s) > 0
        yield f"{PREFIXES[side]}{clocks[place].name}_rounds_s", values_s if meaningful else None


def _was_read(round_: Round, block: tuple[int, int]) -> bool:
    place, side = block
    return bool(round_.timings[place][side].samples_s)


def _reason(played: Sequence[Round], place: int, otherwise: str) -> str:
    return next(filter(None, (round_.timings[place][0].reason for round_ in played)), otherwise)


def _calls_that_fit(step: Step, device: Device, latency_s: float) -> _Block:
    calls = wanted = timers.calls_for(EVENT_BLOCK_S, latency_s, 0.0) if device.queues else 1
    while True:
        timing = timers.device_time(step, device, calls)
        if timing.samples_s and calls == wanted:
            return _long_enough(step, device, calls, timing.samples_s[0])
        if timing.samples_s:
            return _Block(calls, wanted)
        if calls == 1:
            return _Block(None, wanted, timing.reason)
        calls = max(1, calls // FEWER)


def _long_enough(step: Step, device: Device, calls: int, device_s: float) -> _Block:
    """Returns the block for a step of which `calls` calls fit into the held queue.

    `device_s`: the device's time per call. If that many calls are too short to time, the block has
    as many as are wanted, or still `calls` if those do not fit.
    """
    wanted = max(calls, math.ceil(EVENT_BLOCK_S / max(device_s, SHORTEST_S)))
    if wanted > calls and timers.device_time(step, device, wanted).samples_s:
        return _Block(wanted, wanted)
    return _Block(calls, wanted)
