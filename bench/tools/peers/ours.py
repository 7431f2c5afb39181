"""modescope's own readings: a clock for each peer's quantity, and the paired comparison."""

from __future__ import annotations

import random
from collections.abc import Callable

from modescope.bench.records.cases import Budget
from modescope.bench.timing import comparison, memory_layout, timers
from modescope.bench.timing.rounds import quiet_gc
from modescope.bench.tools.peers.sides import CallTimes
from modescope.bench.tools.testbed.sides import Side

BLOCK_S = 1e-3  # as in budget=standard
PIPELINE_BLOCK_S = 5e-3  # longer, because a slope is a difference of blocks
LEAST_TIMINGS = 3  # for a median
WARM_UP_SHARE = 0.2
READING_S = 0.25
MAX_ROUNDS = 100_000  # never reached: the time limit ends the rounds
DEVICE_CALLS = 20  # few enough for a device's queue
DEVICE_BLOCKS = 11

SideClock = Callable[[Side, float | None], CallTimes]


def pipelined(of: Side, seconds: float | None = None) -> CallTimes:
    """Blocks of calls back to back, or slopes between them; the reading is their median."""
    limit_s, blocks = seconds or READING_S, timers.pipelined_blocks(of.device)
    block_s = min(PIPELINE_BLOCK_S, limit_s / (LEAST_TIMINGS * blocks))
    calls = timers.calls_for(block_s, of.call_s, 0.0)
    many = max(LEAST_TIMINGS, int(limit_s / (blocks * calls * of.call_s)))
    with quiet_gc():
        timings = [timers.pipelined(of.step, of.device, calls) for _ in range(many)]
    return tuple(sample for timing in timings for sample in timing.samples_s)


def latency(of: Side, seconds: float | None = None) -> CallTimes:
    """Single calls, each waited for."""
    calls = timers.calls_for(seconds or READING_S, of.call_s, 0.0)
    with quiet_gc():
        return timers.latency(of.step, of.device, calls).samples_s


def device(of: Side, seconds: float | None = None) -> CallTimes:
    """Device time of calls that were queued ahead; empty if the step cannot be queued."""
    with quiet_gc():
        timings = [
            timers.device_time(of.step, of.device, DEVICE_CALLS) for _ in range(DEVICE_BLOCKS)
        ]
    return tuple(sample for timing in timings for sample in timing.samples_s)


CLOCKS: dict[str, SideClock] = {each.__name__: each for each in (pipelined, latency, device)}


def compare(
    case: Side, baseline: Side, seconds: float, shuffle: random.Random
) -> tuple[CallTimes, CallTimes]:
    """Warm-up, then as many paired rounds as fit into the time: the medians of each round.

    The memory layout is drawn anew for each block, as in the runner.
    """
    seed, budget = shuffle.randrange(2**32), _budget(seconds)
    tensors = [*case.step.tensors, *baseline.step.tensors]
    elsewhere = memory_layout.anew(tensors, case.device, seed)
    rounds = comparison.compare(
        case.step, baseline.step, case.device, budget, seed, elsewhere
    ).rounds
    assert rounds.latency_rounds_s is not None
    assert rounds.baseline_latency_rounds_s is not None
    return rounds.latency_rounds_s, rounds.baseline_latency_rounds_s


def _budget(seconds: float) -> Budget:
    """A budget of exactly `seconds`: without waiting for a steady state, without an early end."""
    warmup_s = WARM_UP_SHARE * seconds
    return Budget(
        name="peers",
        rank=0,
        warmup_min_s=warmup_s,
        warmup_max_s=warmup_s,
        block_s=BLOCK_S,
        pilot_rounds=12,
        min_rounds=MAX_ROUNDS,
        max_rounds=MAX_ROUNDS,
        half_width=0.005,
        timed_max_s=seconds - warmup_s,
        clock_rounds=0,
    )
