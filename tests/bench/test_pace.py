"""Clocks that fall, rise or stay, and reasons that come up, all of them made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import pytest

from bench.pace import CLOCK_FALL, Course, Sample, course, sample, throttled
from bench.records import Findings
from bench.testbed.simulated import SimulatedDevice

GHZ = 1e9


def after(device: SimulatedDevice, seconds: float) -> Sample:
    device.now_s = seconds
    return sample(device)


@pytest.mark.parametrize(("fall", "expected"), [(0.0, False), (0.02, False), (0.1, True)])
def test_a_device_that_slows_down_in_the_middle(fall: float, expected: bool) -> None:
    device = SimulatedDevice(slowdown=lambda now_s: 1.0 if now_s < 5 else 1 / (1 - fall))
    seen = course([after(device, at_s) for at_s in (0.0, 4.0, 8.0)])
    clock = SimulatedDevice.CLOCK_HZ
    assert seen.device_clock_hz == pytest.approx((clock, clock, (1 - fall) * clock))
    assert (seen.throttle_reasons, seen.gpu_processes) == (None, None)
    assert throttled(seen.device_clock_hz, seen.throttle_reasons) is expected


def test_a_device_whose_clock_cannot_be_read() -> None:
    seen = course([sample(SimulatedDevice(queues=False))] * 3)
    assert seen == Course(None, None, None)
    assert not throttled(seen.device_clock_hz, seen.throttle_reasons)


@pytest.mark.parametrize(
    ("clocks_ghz", "expected"),
    [
        ((2.0, 2.0, 2.0), False),
        ((2.0, 1.95, 1.95), False),  # 2.5 % lower
        ((2.0, 1.93, 2.0), True),  # 3.5 % lower, if only for a while
        ((2.0, 2.0, 1.93), True),
        ((1.2, 1.98, 1.98), False),  # it woke up
        ((1.2, 1.98, 1.9), True),  # woke up and fell: the first is no measure
        ((2.0, 1.96, 1.92), True),  # 4 % lower in two steps
        ((2.0,), False),
        ((), False),
        (None, False),
    ],
)
def test_how_far_a_clock_may_fall(clocks_ghz: tuple[float, ...] | None, expected: bool) -> None:
    assert CLOCK_FALL == 0.03
    clocks_hz = None if clocks_ghz is None else tuple(each * GHZ for each in clocks_ghz)
    assert throttled(clocks_hz, None) is expected
    assert throttled(clocks_hz, ()) is expected
    assert throttled(clocks_hz, ("sw_power_cap",))


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
        ([{}, None, {"sw_power_cap": 1}], None),  # what was asked in vain may have been something
        ([None, None], None),
    ],
    ids=str,
)  # fmt: skip
def test_reasons_that_came_up(counts: list[Counts | None], reasons: tuple[str, ...] | None) -> None:
    assert course([Sample(None, each, None) for each in counts]).throttle_reasons == reasons


@pytest.mark.parametrize(
    ("others", "most"), [((0, 0, 0), 0), ((0, 2, 1), 2), ((0, None, 1), None), ((None,), None)]
)
def test_the_most_neighbours_at_any_moment(
    others: tuple[int | None, ...], most: int | None
) -> None:
    assert course([Sample(None, None, each) for each in others]).gpu_processes == most


def test_a_clock_that_was_not_read_each_time_is_unknown() -> None:
    readings = [Sample(2 * GHZ, None, None), Sample(None, None, None)]
    assert course(readings).device_clock_hz is None


def test_every_fact_has_its_column() -> None:
    columns = {field.name: field.type for field in fields(Findings)}
    assert {field.name: columns.get(field.name) for field in fields(Course)} == {
        field.name: field.type for field in fields(Course)
    }
