"""Two passes of calls of different lengths, timed in turns while the machine's pace changes."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

import pytest

from modescope.bench.devices.devices import Pass
from modescope.bench.timing import paired, timers
from tests.helpers.made_up_records import BUDGET
from tests.helpers.simulated import SimulatedDevice, step

CALLS_S = [1e-3 * length for length in range(1, 17)] * 10  # 1.36 s a pass


def two_speeds(now_s: float) -> float:
    """Half as fast for 0.4 s of every 1.1 s."""
    return 2.0 if math.fmod(now_s, 1.1) < 0.4 else 1.0


@pytest.mark.parametrize("queues", [True, False])
def test_passes_take_turns_so_that_both_have_the_same_pace(queues: bool) -> None:
    device = SimulatedDevice(queues, slowdown=two_speeds)
    case, baseline = (
        Pass(tuple(step(device, (0.0, factor * each)) for each in CALLS_S)) for factor in (1, 1.25)
    )
    budget = replace(BUDGET, pilot_rounds=12, max_rounds=12, timed_max_s=1e9)
    rounds = paired.play_pairs(case, baseline, device, budget, 0, (1.36, 1.7))
    pairs = zip(rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, strict=True)
    ratios = [theirs / ours for ours, theirs in pairs]
    assert ratios == pytest.approx([1.25] * 12, rel=0.04)  # as a whole 8 % off
    assert median(ratios) == pytest.approx(1.25, rel=0.01)
    assert sum(rounds.latency_rounds_s) / 12 == pytest.approx(1.36 * 1.36, rel=0.1)


def test_each_call_of_a_pass_is_waited_for() -> None:
    """Launching 1 ms while the device works 2 ms: 3 ms a call, not 2 for all but the first."""
    device = SimulatedDevice()
    calls = Pass((step(device, (1e-3, 2e-3)),) * 10)
    assert timers.latency(calls, device, 1).samples_s == pytest.approx([30e-3])
