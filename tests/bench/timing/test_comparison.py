"""Warm-up, comparison and measurement of plain callables, on simulated time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from modescope.bench.devices.devices import Step
from modescope.bench.records.columns.timing import Contention, DeviceState
from modescope.bench.timing import comparison
from modescope.bench.timing.comparison import warm_up
from tests.helpers import made_up_records
from tests.helpers.simulated import Scale, SimulatedDevice, decaying, recording, settling, step

CASE_S, BASELINE_S = 4e-5, 5e-5
BUDGET = replace(made_up_records.BUDGET, min_rounds=12, max_rounds=12)


def stay() -> None:
    """Leaves memory where it is."""


def pair(device: SimulatedDevice) -> tuple[Step, Step]:
    return step(device, (CASE_S, 0.0)), step(device, (BASELINE_S, 0.0))


@pytest.mark.parametrize("phase", ["warm-up", "timing"])
def test_only_compilations_in_the_rounds_are_counted(phase: str) -> None:
    device: Any = SimulatedDevice()
    phases, compiled = list[str](), list[str]()
    case, baseline = pair(device)

    def compiling() -> None:
        compiled.extend([phases[-1]] * (phases[-1] == phase))
        case()

    def count_from_now() -> Callable[[], int]:
        before = len(compiled)
        return lambda: len(compiled) - before

    found = comparison.measure(
        compiling, baseline, device, BUDGET, 0, stay, phases.append, count_from_now
    )
    assert compiled
    assert phases == ["warm-up", "timing"]
    assert found.comparison.compilations == (len(compiled) if phase == "timing" else 0)


def test_the_device_is_looked_at_before_warm_up_and_after_timing() -> None:
    """The device is slower from its first call on."""
    device: Any = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s == 0 else 2.0)
    found = comparison.measure(*pair(device), device, BUDGET, 0, stay)
    clock_hz = SimulatedDevice.CLOCK_HZ
    assert found.device_state.device_clock_hz == (clock_hz, clock_hz / 2)
    assert found.contention.watched_s > 0
    assert found.comparison.compilations == 0  # where nobody counts them


def test_flags_are_of_the_device_too_where_it_was_looked_at() -> None:
    device: Any = SimulatedDevice()
    measured = comparison.measure(*pair(device), device, BUDGET, 0, stay)
    compared, idle = measured.comparison, Contention()
    seen = DeviceState(throttle_reasons=("sw_power_cap",), gpu_processes=1)
    assert {"throttled", "contended"} & {*comparison.flags(compared, idle)} == set()
    assert {"throttled", "contended"} <= {*comparison.flags(compared, idle, seen)}


def test_the_speedup_is_without_an_effect_of_the_order() -> None:
    """Of 21 rounds one order has one more, and its 2 % would be the median."""
    device: Any = SimulatedDevice()
    blocks = list[None]()

    def equal() -> Step:
        return step(device, (4e-5, 0.0), scale=lambda: 1.0 if len(blocks) % 2 else 1.02)

    budget = replace(BUDGET, min_rounds=21, max_rounds=21)
    found = comparison.compare(equal(), equal(), device, budget, 0, lambda: blocks.append(None))
    assert len(blocks) == 42
    assert found.speedup is not None
    assert found.speedup.value == pytest.approx(1, abs=0.003)


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


def test_warm_up_shares_the_time_between_the_steps_and_calls_each_at_least_three_times() -> None:
    device, log = SimulatedDevice(), list[str]()
    steps = [recording(device, log, "C"), recording(device, log, "B")]
    result = warm_up(steps, device, replace(BUDGET, warmup_min_s=0.0, warmup_max_s=0.0))
    assert "".join(log) == "CCCBBB"
    assert result.per_call_s == pytest.approx((1e-3, 1e-3))
    log.clear()
    warm_up(steps, device, BUDGET)
    turns = "".join(log[6:])
    assert turns == "CB" * (len(turns) // 2)
    assert len(turns) > 10
