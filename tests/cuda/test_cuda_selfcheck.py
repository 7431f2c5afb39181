"""The self-check on a GPU: checks that need one pass."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from modescope.bench.devices.devices import Hardware
from modescope.bench.stats import estimates
from modescope.bench.tools.selfcheck import exact, races
from modescope.bench.tools.selfcheck.check import Check, CheckRow, Setting, most_wrong, open_device
from modescope.bench.tools.selfcheck.races import (
    FALSE_ALARMS,
    FALSE_VERDICTS,
    adaptive_budget,
    race,
)
from modescope.bench.tools.selfcheck.workloads import build

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("one_thread")]

PAIRS = 20
FEW = 3
WORST_DISTURBANCE = 0.03


@pytest.fixture(scope="module")
def device() -> Hardware:
    return open_device("cuda")


def decided(check: Check, device: Hardware) -> list[CheckRow]:
    """The rows of a check, all of which must be decided and pass."""
    found = list(check(Setting(device, thorough=False)))
    assert [outcome for outcome in found if outcome.holds is not True] == []
    return found


def test_readings_of_planted_device_work_lie_on_a_line(device: Hardware) -> None:
    assert len(decided(exact.planted_spins, device)) == 1


def test_planted_host_and_device_work_are_separated(device: Hardware) -> None:
    # More work of the host, and more work of the device.
    assert len(decided(exact.separation, device)) == 2 * len(exact.SEPARATION)


def test_device_time_agrees_with_triton(device: Hardware) -> None:
    checks = [outcome.check.rpartition(".")[2] for outcome in decided(exact.triton_bench, device)]
    assert checks == ["do_bench", "do_bench_cudagraph"]


def test_equal_steps_show_no_difference(device: Hardware) -> None:
    found = [
        race(
            build(races.STEP, device), build(races.STEP, device), device, adaptive_budget(2.0), seed
        )
        for seed in range(PAIRS)
    ]
    assert sum(trial.sign != 0 for trial in found) <= most_wrong(PAIRS, FALSE_ALARMS)
    verdicts = [estimates.verdict(trial.speedup) for trial in found]
    wrong = verdicts.count("faster") + verdicts.count("slower")
    assert wrong <= most_wrong(PAIRS, FALSE_VERDICTS)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough trials to show that a check works; its result takes those of the program."""
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: min(quick, FEW))


@pytest.mark.usefixtures("few")
def test_pipelined_time_agrees_with_torch(device: Hardware) -> None:
    found = list(exact.torch_timer(Setting(device, thorough=False)))
    assert [float(outcome.found) for outcome in found] == pytest.approx([1.0] * 3, abs=0.05)


@pytest.mark.usefixtures("few")
def test_a_longer_spin_is_detected(device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "CONDITIONS", {"quiet": nullcontext})
    found = decided(races.planted_changes, device)
    assert len(found) == sum(change.trials[0] > 0 for change in races.CHANGES)


@pytest.mark.full
def test_a_disturbed_device_keeps_its_ratio_and_is_flagged(device: Hardware) -> None:
    """A few trials cannot say how often."""
    setting = Setting(device, thorough=False)
    for slowdown, condition in races.DISTURBANCES.values():
        with condition():
            trials = [races.disturbed_race(slowdown, setting, seed) for seed in range(FEW)]
        assert max(abs(trial.speedup.value - 1) for trial in trials) < WORST_DISTURBANCE
    # the last one is by other processes
    assert not trials[0].load_known or any("contended" in trial.flags for trial in trials)
