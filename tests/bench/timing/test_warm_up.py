"""Warm-up, on simulated time: until steps are steady, at least and at most for a while."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from modescope.bench.timing.warm_up import warm_up
from modescope.bench.tools.testbed.simulated import (
    Scale,
    SimulatedDevice,
    decaying,
    normal_noise,
    settling,
    step,
)
from tests.helpers.made_up_records import BUDGET
from tests.helpers.simulated_steps import recording


@pytest.mark.parametrize("slow_start", [settling(100, 3.0), decaying(2000, 3.0)])
def test_warm_up_lasts_through_a_transient(slow_start: Scale) -> None:
    """100 slow calls are over before the minimum; an excess that fades over 2000 is not."""
    device = SimulatedDevice()
    steps = [step(device, (1e-5, 4e-5), scale=slow_start), step(device, (1e-5, 9e-5))]
    result = warm_up(steps, device, replace(BUDGET, warmup_max_s=5.0))
    assert result.steady
    assert result.per_call_s == pytest.approx((5e-5, 1e-4), rel=0.02)


def test_warm_up_lasts_at_least_its_minimum() -> None:
    device = SimulatedDevice()
    result = warm_up([step(device, (1e-5, 4e-5))], device, BUDGET)
    assert result.steady
    assert BUDGET.warmup_min_s <= result.seconds <= BUDGET.warmup_min_s + 2 * BUDGET.block_s
    assert device.now_s == pytest.approx(result.seconds)


@pytest.mark.parametrize("unsteady_first", [True, False])
def test_warm_up_ends_at_its_limit_without_a_steady_state(unsteady_first: bool) -> None:
    device = SimulatedDevice()
    growth = count(1)
    steps = [
        step(device, (1e-5, 4e-5), scale=lambda: 1 + next(growth) / 1000),
        step(device, (1e-5, 4e-5)),
    ]
    result = warm_up(steps if unsteady_first else steps[::-1], device, BUDGET)
    assert not result.steady
    assert BUDGET.warmup_max_s <= result.seconds < 1.1 * BUDGET.warmup_max_s


def test_warm_up_calls_a_slow_step_at_least_three_times() -> None:
    device, log = SimulatedDevice(), list[str]()
    budget = replace(BUDGET, warmup_min_s=0.0, warmup_max_s=0.0)
    result = warm_up([recording(device, log, "C"), recording(device, log, "B")], device, budget)
    assert (log.count("C"), log.count("B")) == (3, 3)
    assert result.per_call_s == pytest.approx((1e-3, 1e-3))


def test_warm_up_shares_the_time_between_the_steps() -> None:
    device, log = SimulatedDevice(), list[str]()
    warm_up([recording(device, log, "C"), recording(device, log, "B")], device, BUDGET)
    turns = "".join(log[6:])
    assert turns == "CB" * (len(turns) // 2)
    assert len(turns) > 10


def test_noise_alone_does_not_prevent_a_steady_state() -> None:
    device = SimulatedDevice()
    call = step(device, (1e-5, 4e-5), scale=normal_noise(0, 0.05))
    assert warm_up([call], device, BUDGET).steady
