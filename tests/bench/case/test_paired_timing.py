"""What happens before each block of timed calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from modescope.bench.case import paired_timing
from modescope.bench.devices import devices
from modescope.bench.records.columns import DeviceState
from tests.helpers.simulated import SimulatedDevice


class Looked(SimulatedDevice):
    """Counts how often its state was asked for."""

    looks = 0

    def slowdowns(self) -> Mapping[str, int] | None:
        self.looks += 1
        return {}


@pytest.mark.parametrize(("queues", "looks"), [(True, 3), (False, 0)])
def test_a_gpu_is_asked_before_each_block_why_it_is_slow(queues: bool, looks: int) -> None:
    device: Any = Looked(queues=queues)
    redraw = paired_timing.redraw([], device, seed=0)
    for _ in range(3):
        redraw()
    assert device.looks == looks


def test_the_states_of_two_measurements_are_joined() -> None:
    one = DeviceState((2e9, 1.9e9), ("sw_power_cap",), 1)
    other = DeviceState((1.8e9, 1.7e9), ("hw_thermal", "sw_power_cap"), 0)
    joined = devices.join(one, other)
    assert joined.device_clock_hz == (2e9, 1.9e9, 1.8e9, 1.7e9)
    assert joined.throttle_reasons == ("sw_power_cap", "hw_thermal")
    assert joined.gpu_processes == 1
    assert devices.join(one, DeviceState()) == DeviceState()
