"""Made-up clock rates that fall, rise or stay, and made-up throttle reasons."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from modescope.bench.devices.clock_rate import Sample, course, sample
from modescope.bench.records.columns import DeviceState
from modescope.bench.stats.conditions import throttled
from modescope.bench.tools.testbed.simulated import SimulatedDevice


def after(device: SimulatedDevice, seconds: float) -> Sample:
    device.now_s = seconds
    return sample(device)


@pytest.mark.parametrize(("fall", "expected"), [(0.0, False), (0.02, False), (0.1, True)])
def test_a_device_that_slows_down_is_recorded(fall: float, expected: bool) -> None:
    device = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s < 5 else 1 / (1 - fall))
    seen = course([after(device, at_s) for at_s in (0.0, 4.0, 8.0)])
    clock = SimulatedDevice.CLOCK_HZ
    assert seen.device_clock_hz == pytest.approx((clock, clock, (1 - fall) * clock))
    assert (seen.throttle_reasons, seen.gpu_processes) == (None, None)
    assert throttled(seen.device_clock_hz, seen.throttle_reasons) is expected


def test_without_a_readable_clock_the_rate_is_unknown() -> None:
    seen = course([sample(SimulatedDevice(queues=False))] * 3)
    assert seen == DeviceState()
    assert not throttled(seen.device_clock_hz, seen.throttle_reasons)


Counts = Mapping[str, int]


@pytest.mark.parametrize(
    ("counts", "reasons"),
    [
        ([{}, {}, {}], ()),
        ([{"cpu_thermal": 7}, {"cpu_thermal": 7}], ()),  # since boot, not now
        ([{"cpu_thermal": 7}, {"cpu_thermal": 9}], ("cpu_thermal",)),
        ([{}, {"sw_power_cap": 1}, {"sw_power_cap": 1, "hw_slowdown": 1}],
         ("sw_power_cap", "hw_slowdown")),
        ([{"sw_power_cap": 1}, {"sw_power_cap": 1}], ()),  # before, and never again
        ([{}, None, {"sw_power_cap": 1}], None),  # a failed reading may hide a reason
        ([None, None], None),
    ],
    ids=str,
)  # fmt: skip
def test_throttle_reasons_are_collected(
    counts: list[Counts | None], reasons: tuple[str, ...] | None
) -> None:
    assert course([Sample(None, each, None) for each in counts]).throttle_reasons == reasons


@pytest.mark.parametrize(
    ("others", "most"), [((0, 0, 0), 0), ((0, 2, 1), 2), ((0, None, 1), None), ((None,), None)]
)
def test_the_largest_number_of_other_processes_is_recorded(
    others: tuple[int | None, ...], most: int | None
) -> None:
    assert course([Sample(None, None, each) for each in others]).gpu_processes == most


def test_a_clock_rate_missing_once_is_unknown() -> None:
    readings = [Sample(2e9, None, None), Sample(None, None, None)]
    assert course(readings).device_clock_hz is None
