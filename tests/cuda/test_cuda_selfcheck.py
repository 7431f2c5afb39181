"""The self-check on a GPU: checks that need one pass."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.selfcheck import disturbances, exact, races
from modescope.bench.tools.selfcheck.outcomes import CheckRow, SelfCheck, Setting, most
from modescope.bench.tools.selfcheck.races import FALSE_ALARMS, FALSE_VERDICTS
from modescope.bench.tools.selfcheck.trials import adaptive, race
from modescope.bench.tools.testbed.sides import Recipe, ready

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("one_thread")]

PAIRS = 20
FEW = 3
WORST_DISTURBANCE = 0.03


@pytest.fixture(scope="module")
def device() -> Hardware:
    return ready("cuda")


def decided(check: SelfCheck, device: Hardware) -> list[CheckRow]:
    """The rows of a check, all of which must be decided and pass."""
    found = list(check(Setting(device, thorough=False)))
    assert [outcome for outcome in found if outcome.holds is not True] == []
    return found


def test_readings_of_planted_device_work_lie_on_a_line(device: Hardware) -> None:
    (line,) = decided(exact.planted_spins, device)
    assert line.trials == len(exact.SPINS_S)


def test_planted_host_and_device_work_are_separated(device: Hardware) -> None:
    conditions = [outcome.condition for outcome in decided(exact.separation, device)]
    rows = 2 * len(exact.SEPARATION)  # more work of the host, more work of the device
    assert conditions == ["simulated clock"] * rows + ["GPU"] * rows


def test_device_time_agrees_with_triton(device: Hardware) -> None:
    if reason := exact.without_triton(device):
        pytest.skip(reason)
    checks = [outcome.check.rpartition(".")[2] for outcome in decided(exact.triton_bench, device)]
    assert checks == ["do_bench", "do_bench_cudagraph"]


def test_equal_steps_show_no_difference(device: Hardware) -> None:
    recipe = Recipe("pointwise", "cuda", 1)
    found = [
        race(recipe.build(device), recipe.build(device), device, adaptive(2.0), seed)
        for seed in range(PAIRS)
    ]
    assert sum(trial.sign != 0 for trial in found) <= most(PAIRS, FALSE_ALARMS)
    assert sum(trial.verdict_sign != 0 for trial in found) <= most(PAIRS, FALSE_VERDICTS)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough trials to show that a check works; its result takes those of the program."""
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: min(quick, FEW))


@pytest.mark.usefixtures("few")
def test_pipelined_time_agrees_with_torch(device: Hardware) -> None:
    found = list(exact.torch_timer(Setting(device, thorough=False)))
    assert [outcome.trials for outcome in found] == [FEW] * 3
    assert [outcome.value for outcome in found] == pytest.approx([1.0] * 3, abs=0.05)


@pytest.mark.usefixtures("few")
def test_a_longer_spin_is_detected(device: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "CONDITIONS", {"quiet": nullcontext})
    found = decided(races.planted_changes, device)
    required = [races.detection_check(each) for each in races.CHANGES if each.required]
    assert [outcome.check for outcome in found] == required


@pytest.mark.full
@pytest.mark.usefixtures("few")
def test_a_disturbed_device_is_flagged(device: Hardware) -> None:
    found = list(disturbances.disturbances(Setting(device, thorough=False)))
    off = [row for row in found if "ratio within" in row.check]
    flagged = [row for row in found if ": flagged " in row.check]
    assert len(off) + len(flagged) == len(found)
    expected = [
        f"{each.name}: flagged {each.flag}" for each in disturbances.DISTURBANCES if each.flag
    ]
    assert [row.check for row in flagged] == expected
    # A few trials cannot say how often.
    assert min(row.value for row in flagged if row.value is not None) > 0
    assert max(row.value for row in off if row.value is not None) < WORST_DISTURBANCE
