"""modescope's own readings: the clock that asks a peer's question, and the paired comparison."""

from __future__ import annotations

import random
from collections.abc import Callable

from bench import placement, timers
from bench.peers.sides import Samples
from bench.records import Budget
from bench.rounds import paired, quiet_gc, warm_up
from bench.testbed.sides import Side

BLOCK_S = 1e-3  # as in budget=standard
PIPELINE_BLOCK_S = 5e-3  # a slope is a difference: it takes longer blocks (bench/clocks.py)
WARM_UP_SHARE = 0.2
READING_S = 0.25
MAX_ROUNDS = 100_000  # never reached: time ends the rounds
DEVICE_CALLS = 20  # launches of these fit into a device's queue
DEVICE_BLOCKS = 11

Clock = Callable[[Side, float | None], Samples]


def pipelined(of: Side, seconds: float | None = None) -> Samples:
    """Slopes between blocks of calls back to back; the median of them is the reading."""
    block_s = min(PIPELINE_BLOCK_S, (seconds or READING_S) / 9)  # three blocks make a slope
    calls = timers.calls_for(block_s, of.call_s, 0.0)
    slopes = max(3, int((seconds or READING_S) / (3 * calls * of.call_s)))
    with quiet_gc():
        timings = [timers.pipelined(of.step, of.device, calls) for _ in range(slopes)]
    return tuple(sample for timing in timings for sample in timing.samples_s)


def latency(of: Side, seconds: float | None = None) -> Samples:
    """Single calls, each waited for."""
    calls = timers.calls_for(seconds or READING_S, of.call_s, 0.0)
    with quiet_gc():
        return timers.latency(of.step, of.device, calls).samples_s


def device(of: Side, seconds: float | None = None) -> Samples:
    """Device time of calls that were queued ahead; none where the step cannot be queued."""
    with quiet_gc():
        timings = [
            timers.device_time(of.step, of.device, DEVICE_CALLS) for _ in range(DEVICE_BLOCKS)
        ]
    return tuple(sample for timing in timings for sample in timing.samples_s)


CLOCKS: dict[str, Clock] = {each.__name__: each for each in (pipelined, latency, device)}


def compare(
    case: Side, baseline: Side, seconds: float, shuffle: random.Random
) -> tuple[Samples, Samples]:
    """Warm-up, then as many paired rounds as the time is worth: the medians of each round.

    Memory is placed anew for each round, as the runner does it.
    """
    budget = _budget(seconds)
    steps = (case.step, baseline.step)
    settled = warm_up(steps, case.device, budget)
    seed = shuffle.randrange(2**32)
    tensors = [*case.step.tensors, *baseline.step.tensors]
    elsewhere = placement.anew(tensors, case.device, seed)
    rounds = paired(*steps, case.device, budget, seed, settled.per_call_s, elsewhere)
    assert rounds.baseline_s is not None
    return rounds.case_s, rounds.baseline_s


def _budget(seconds: float) -> Budget:
    """All of `seconds`: no steady state is waited for, and no precision ends the rounds early."""
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
