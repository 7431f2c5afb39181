"""The facts of a CPU, and the conditions that a device reports."""

from __future__ import annotations

import pytest

from modescope.bench.devices import processor
from modescope.bench.devices.devices import Conditions, Cpu, device_state, read_conditions
from modescope.bench.records.columns.timing import DeviceState


def test_facts_of_a_cpu() -> None:
    facts = Cpu().facts()
    assert (facts.type, facts.compute_capability) == ("cpu", None)
    assert facts.name
    assert facts.memory_bytes is None or 2**27 < facts.memory_bytes < 2**50


def test_a_cpu_reports_thermal_throttling_where_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([5, 5, 7, None])
    monkeypatch.setattr(processor, "throttle_count", lambda: next(counts))
    first, second, third, fourth = (read_conditions(Cpu()) for _ in range(4))
    assert device_state(first, second) == DeviceState(throttle_reasons=())
    assert device_state(second, third).throttle_reasons == ("cpu_thermal",)
    assert device_state(third, fourth).throttle_reasons is None


def test_a_reading_that_is_missing_is_unknown() -> None:
    before, after = Conditions(2e9, {"hot": 7, "cap": 1}, 0), Conditions(1.9e9, {"hot": 9}, 2)
    assert device_state(before, after) == DeviceState((2e9, 1.9e9), ("hot",), 2)
    assert device_state(Conditions(None, None, None), after) == DeviceState()
