"""Calls without the baseline's in between, on a simulated GPU that lowers its clock under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.records.columns.timing import Alone
from modescope.bench.timing import alone
from tests.helpers import made_up_records
from tests.helpers.simulated import SimulatedDevice, step

BUDGET = replace(made_up_records.BUDGET, warmup_min_s=0.5, warmup_max_s=5.0)
CALL_S = 1e-3
FULL_HZ = SimulatedDevice.CLOCK_HZ


class Limited(SimulatedDevice):
    """Slows down by a quarter after `until_s` of work, and says why if `tells`."""

    def __init__(self, until_s: float, tells: bool = True, **options: Any) -> None:
        self.until_s, self.tells, self.looks = until_s, tells, 0
        super().__init__(slowdown=lambda now_s: 1.25 if now_s > until_s else 1.0, **options)

    def slowdowns(self) -> Mapping[str, int] | None:
        self.looks += self.now_s > self.until_s
        return {"sw_power_cap": self.looks} if self.tells else None


def read(device: SimulatedDevice, clock_hz: float | None = FULL_HZ) -> tuple[Alone, list[float]]:
    """What is read of a call of a millisecond, and when the memory was drawn anew."""
    draws: list[float] = []
    made: Any = device
    found = alone.read(
        step(device, (1e-5, CALL_S)), made, BUDGET, CALL_S, clock_hz,
        lambda: draws.append(device.now_s),
    )  # fmt: skip
    return found, draws


def test_a_block_shows_what_calls_take_by_themselves() -> None:
    device = Limited(until_s=100.0)
    found, draws = read(device)
    assert found.latency_alone_s == pytest.approx(CALL_S + 1e-5)
    assert (found.clock_alone_hz, found.throttle_alone) == (FULL_HZ, ())
    assert len(draws) == 1
    assert alone.BLOCK_S <= device.now_s < 2 * alone.BLOCK_S


@pytest.mark.parametrize("tells", [True, False])
def test_a_device_that_slows_down_is_read_once_it_is_steady(tells: bool) -> None:
    """Either sign suffices: a reason, or a clock that is not that of the rounds."""
    device = Limited(until_s=0.25, tells=tells)
    found, draws = read(device)
    assert found.latency_alone_s == pytest.approx(1.25 * CALL_S, rel=0.02)
    assert found.clock_alone_hz == FULL_HZ / 1.25
    assert found.throttle_alone == (("sw_power_cap",) if tells else None)
    assert len(draws) == 3
    assert device.now_s > 2 * alone.BLOCK_S + BUDGET.warmup_min_s


def test_a_clock_that_rises_is_another_one_too() -> None:
    assert len(read(Limited(until_s=100.0), FULL_HZ / 1.04)[1]) == 3
    assert len(read(Limited(until_s=100.0), FULL_HZ / 1.02)[1]) == 1
    assert len(read(Limited(until_s=100.0), None)[1]) == 1


def test_without_a_queue_nothing_is_timed() -> None:
    device = SimulatedDevice(queues=False)
    assert read(device) == (Alone(), [])
    assert device.now_s == 0.0
