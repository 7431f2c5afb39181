"""The facts of a CPU, and the conditions that a device reports."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from modescope.bench.devices import processor
from modescope.bench.devices.devices import Conditions, Cpu, device_state, read_conditions
from modescope.bench.records.columns import DeviceState
from modescope.bench.stats.diagnostics import throttled
from tests.helpers.simulated import SimulatedDevice


def test_facts_of_a_cpu() -> None:
    facts = Cpu().facts()
    assert (facts.type, facts.compute_capability) == ("cpu", None)
    assert facts.name
    assert facts.memory_bytes is None or 2**27 < facts.memory_bytes < 2**50


def test_a_cpu_reports_thermal_throttling_where_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([5, 5, 7, None])
    monkeypatch.setattr(processor, "throttle_count", lambda: next(counts))
    samples = [read_conditions(Cpu()) for _ in range(4)]
    assert device_state(samples[:2]).throttle_reasons == ()
    assert device_state(samples[:3]).throttle_reasons == ("cpu_thermal",)
    assert device_state(samples).throttle_reasons is None


def test_without_a_readable_clock_the_rate_is_unknown() -> None:
    seen = device_state([read_conditions(SimulatedDevice(queues=False))] * 3)
    assert seen == DeviceState()
    assert not throttled(seen.device_clock_hz, seen.throttle_reasons)


@pytest.mark.parametrize(
    ("counts", "reasons"),
    [
        ([{"cpu_thermal": 7}, {"cpu_thermal": 7}], ()),  # since boot, not now
        ([{"cpu_thermal": 7}, {"cpu_thermal": 9}], ("cpu_thermal",)),
        ([{}, {"sw_power_cap": 1}, {"sw_power_cap": 1, "hw_slowdown": 1}],
         ("sw_power_cap", "hw_slowdown")),
        ([{"sw_power_cap": 1}, {"sw_power_cap": 1}], ()),  # before, and never again
        ([{}, None, {"sw_power_cap": 1}], None),  # a failed reading may hide a reason
    ],
    ids=str,
)  # fmt: skip
def test_throttle_reasons_are_collected(
    counts: list[Mapping[str, int] | None], reasons: tuple[str, ...] | None
) -> None:
    seen = device_state([Conditions(None, each, None) for each in counts])
    assert seen.throttle_reasons == reasons


def test_a_reading_that_is_missing_once_is_unknown() -> None:
    readings = [Conditions(2e9, {}, 0), Conditions(1.9e9, {}, 2), Conditions(2e9, {}, 1)]
    assert device_state(readings) == DeviceState((2e9, 1.9e9, 2e9), (), 2)
    assert device_state([*readings, Conditions(None, None, None)]) == DeviceState()
