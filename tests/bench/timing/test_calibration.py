"""The costs of measuring, on a device of known costs and on this machine."""

from __future__ import annotations

import pytest

from modescope.bench.devices.devices import Cpu
from modescope.bench.timing import calibration
from modescope.bench.timing.calibration import calibrate
from modescope.bench.tools.testbed.simulated import SimulatedDevice


def test_calibration_finds_planted_costs() -> None:
    device = SimulatedDevice(read_cost_s=4e-8, mark_s=1.5e-6)
    found = calibrate(device)
    assert found.timer_cost_s == pytest.approx(4e-8)
    assert found.timer_resolution_s == pytest.approx(4e-8)
    assert found.synchronize_s == pytest.approx(4e-8)  # only the reading that ends it
    assert found.empty_step_s == pytest.approx(4e-8)
    assert found.event_interval_s == pytest.approx(1.5e-6)


class SlowToSynchronise(SimulatedDevice):
    """A synchronise takes 5 us of the host's time, whether or not there is work."""

    def _join(self) -> None:
        super()._join()
        self.now_s += 5e-6


def test_an_empty_step_costs_a_synchronise() -> None:
    """It is timed like every call, so it includes what the harness adds to a latency."""
    device = SlowToSynchronise(read_cost_s=4e-8)
    assert calibration.empty_step(device) == pytest.approx(5e-6 + 4e-8)


@pytest.mark.parametrize("mark_s", [0.0, 2e-6])
def test_marks_are_read_behind_a_held_device(mark_s: float) -> None:
    """The host takes far longer to record a mark than the device to reach it."""
    device = SimulatedDevice(mark_s=mark_s)
    put_down = device.mark

    def slowly() -> object:
        device.now_s += 1e-4
        return put_down()

    device.mark = slowly  # type: ignore[method-assign, assignment]
    assert calibration.event_interval(device) == pytest.approx(mark_s)
    assert device.holds_s == [calibration.MARKS_HOLD_S]


def test_marks_on_a_short_queue_give_no_interval() -> None:
    """A queue so short that the host waits for the device with every mark."""
    device = SimulatedDevice(mark_s=2e-6, depth=3)
    assert calibration.event_interval(device) is None


def test_earlier_work_in_the_queue_does_not_affect_calibration() -> None:
    device = SimulatedDevice(mark_s=2e-6)
    device.launch(0.0, 1000.0)
    assert calibration.event_interval(device) == pytest.approx(2e-6)
    device.synchronize()
    assert device.now_s < 1001.0


def test_a_device_without_a_queue_has_no_marks() -> None:
    device = SimulatedDevice(queues=False, read_cost_s=4e-8)
    found = calibrate(device)
    assert found.event_interval_s is None
    assert found.empty_step_s == pytest.approx(4e-8)
    assert device.holds_s == []


def test_the_cost_of_an_empty_step_on_this_machine() -> None:
    """At least the clock's resolution, and far below the duration of any step."""
    found = calibrate(Cpu())
    assert found.timer_resolution_s <= found.empty_step_s < 1e-4
    assert found.event_interval_s is None
