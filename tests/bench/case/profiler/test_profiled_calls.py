"""Profiled calls in turns with unrecorded ones, on a machine that changes its pace."""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from modescope.bench.case.profiler import profiled_calls
from modescope.bench.case.profiler.profiled_calls import MOST_TURNS, QUEUED_STEPS, take
from modescope.bench.stats import estimates
from modescope.bench.summary import disagrees
from tests.helpers.simulated import SimulatedDevice

MACHINES = 100
SLOW = 1.75
PIECES, PIECE_S = 10, 1e-4  # of a call of 1 ms
DISPATCH = 0.05


def jumping(seed: int) -> Callable[[float], float]:
    """Two speeds, each for 0.3 to 30 ms, so that a profiled call may fall between them."""
    drawn = random.Random(seed)
    ends_s = [0.0]
    while ends_s[-1] < 1.0:
        ends_s.append(ends_s[-1] + 3e-4 * 100 ** drawn.random())
    return lambda now_s: SLOW if bisect(ends_s, now_s) % 2 else 1.0


def flagged(seed: int, shown: float) -> bool:
    """Whether `split_disagrees` is raised if the profiler shows this share of the real work."""
    device = SimulatedDevice(queues=False, slowdown=jumping(seed))
    noise = random.Random(seed)
    calls_s: list[float] = []

    def step() -> None:
        start_s = device.now_s
        for _ in range(PIECES):
            device.launch(PIECE_S * noise.gauss(1, 0.05), 0.0)
        calls_s.append(device.now_s - start_s)

    taken = take(step, device, PIECES * PIECE_S)
    profiled_s = [calls_s[place] for place in range(2, len(calls_s), profiled_calls.CALLS_PER_TURN)]
    assert list(taken.latencies_s) == pytest.approx(profiled_s)
    assert taken.unrecorded_s is not None
    kernels_s = [shown * (1 - DISPATCH) * latency_s for latency_s in taken.latencies_s]
    dispatch = np.random.default_rng(seed).normal(DISPATCH, DISPATCH / 10, MOST_TURNS)
    found = {
        "dispatch_share": estimates.median_interval(dispatch),
        "kernels_share": estimates.ratio(kernels_s, taken.unrecorded_s),
    }
    return disagrees({"device": "cpu"}, found)


@pytest.mark.parametrize(
    ("shown", "least", "most"), [(0.9, 0, 1), (1.1, 0, 1), (0.7, 19, 20), (1.3, 19, 20)]
)
def test_only_a_profile_that_disagrees_is_flagged_while_the_pace_jumps(
    shown: float, least: int, most: int
) -> None:
    """Of twenty rows. Up to 15 % are allowed; more is missing, or slower under the profiler."""
    raised = sum(flagged(seed, shown) for seed in range(MACHINES))
    assert least * MACHINES / 20 <= raised <= most * MACHINES / 20


@pytest.mark.parametrize(
    ("queues", "expected_s", "profiled"),
    [(False, 0.0, MOST_TURNS), (False, 0.04, 8), (False, 30.0, 1), (True, 0.1, QUEUED_STEPS)],
)
def test_fewer_slow_steps_are_profiled(queues: bool, expected_s: float, profiled: int) -> None:
    device = SimulatedDevice(queues=queues)
    taken = take(lambda: device.launch(1.0, 0.0), device, expected_s)
    assert taken.latencies_s == (1.0,) * profiled
    assert len(taken.paces_s) == profiled
    assert taken.unrecorded_s == (None if queues else (1.0,) * profiled)


def test_each_profiled_call_has_the_mean_of_the_calls_around_it() -> None:
    """Calls take 1, 2, 3, ... s; of three, the second is timed and the third is profiled."""
    device = SimulatedDevice(queues=False)
    calls = Counter[str]()

    def step() -> None:
        calls["made"] += 1
        device.launch(calls["made"], 0.0)

    taken = take(step, device, 0.1)
    assert taken.latencies_s == (3.0, 6.0, 9.0)
    assert taken.unrecorded_s == (3.5, 6.5, 9.5)
