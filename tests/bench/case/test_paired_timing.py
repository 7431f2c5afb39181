"""What happens before each block of timed calls, and when rounds are played once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modescope.bench.case import paired_timing
from modescope.bench.devices import devices
from modescope.bench.devices.devices import Cpu, Evictor
from modescope.bench.model.subject import State
from modescope.bench.records.columns.timing import Contention, DeviceState, Rounds
from modescope.bench.records.results import Ended, Findings
from modescope.bench.timing import comparison, pace
from tests.helpers.findings import rounds_of
from tests.helpers.probe_models import smoke
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


def test_evicted_data_are_located_after_they_were_moved() -> None:
    moved = torch.ones(8)
    before, seen = moved.data_ptr(), list[int]()
    evictor = Evictor("made up", print, print, locate=lambda: seen.append(moved.data_ptr()))
    built = SimpleNamespace(tensors=lambda: [moved], evictor=evictor, state=State())
    contender: Any = SimpleNamespace(built=built)
    placement = paired_timing.redraw([contender, contender], Cpu(), seed=0)()
    assert seen == [moved.data_ptr()] * 2  # of the case and of its baseline
    assert seen != [before]
    del placement


def test_the_states_of_two_measurements_are_joined() -> None:
    one = DeviceState((2e9, 1.9e9), ("sw_power_cap",), 1)
    other = DeviceState((1.8e9, 1.7e9), ("hw_thermal", "sw_power_cap"), 0)
    joined = devices.join(one, other)
    assert joined.device_clock_hz == (2e9, 1.9e9, 1.8e9, 1.7e9)
    assert joined.throttle_reasons == ("sw_power_cap", "hw_thermal")
    assert joined.gpu_processes == 1
    assert devices.join(one, DeviceState()) == DeviceState()


class Played:
    """Stands in for a measurement: each call of it returns the next of the planned paces."""

    def __init__(self, *paces: list[float], compilations: int = 0) -> None:
        self.paces, self.compilations, self.calls = list(paces), compilations, 0

    def __call__(self, *given: object, **options: object) -> comparison.Measurement:
        paces_s = self.paces[self.calls]
        self.calls += 1
        latency_s = (float(self.calls),) * len(paces_s)  # tells which one was kept
        rounds = Rounds(
            timed_s=1.0, calls_per_round=1, latency_rounds_s=latency_s, pace_rounds_s=tuple(paces_s)
        )
        compared = comparison.PairedRun(rounds, steady=True, compilations=self.compilations)
        return comparison.Measurement(compared, Contention(), DeviceState())


FULL, HALF = 20e-6, 40e-6
MIXED = [FULL] * 12 + [HALF] * 12
MOSTLY_HALF = [FULL] * 5 + [HALF] * 19


@pytest.mark.parametrize(
    ("paces", "kept", "again"),
    [
        ([[FULL] * 24], 1, False),
        ([MIXED], 1, False),  # twelve are enough
        ([[HALF] * 24, [FULL] * 24], 2, True),
        ([MOSTLY_HALF, [HALF] * 24], 1, True),  # the better one
        ([MOSTLY_HALF, [FULL / 2] * 4 + [FULL] * 20], 2, True),  # by the best pace known then
        ([[FULL] * 2 + [HALF]], 1, False),  # a smoke run
    ],
)
def test_rounds_of_a_slow_host_are_played_once_more(
    paces: list[list[float]],
    kept: int,
    again: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    found = timed(Played(*paces), monkeypatch, tmp_path)
    assert rounds_of(found).latency_rounds_s is not None
    assert (rounds_of(found).latency_rounds_s[0], rounds_of(found).rounds_again) == (kept, again)
    assert rounds_of(found).best_pace_s in (None, FULL, FULL / 2)


def test_a_cpu_plays_its_rounds_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played = Played([HALF] * 24)
    found = timed(played, monkeypatch, tmp_path, queues=False)
    assert (played.calls, rounds_of(found).rounds_again) == (1, None)


def test_what_compiled_meanwhile_is_not_played_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played = Played([HALF] * 24, compilations=1)
    with pytest.raises(Ended):
        timed(played, monkeypatch, tmp_path)
    assert played.calls == 1


def timed(
    played: Played, monkeypatch: pytest.MonkeyPatch, folder: Path, queues: bool = True
) -> Findings:
    """The findings of a row on a machine whose best pace is known to be FULL."""
    monkeypatch.setattr(comparison, "measure", played)
    pace.best_s([FULL] * 24, folder / pace.BEST)
    built: Any = SimpleNamespace(
        timed=lambda: print, evictor=None, tensors=list, state=SimpleNamespace(restore=lambda: None)
    )
    contender: Any = SimpleNamespace(built=built)
    plan = replace(smoke(), results_dir=str(folder))
    device: Any = SimulatedDevice(queues=queues)
    found, latency_s = paired_timing.run(
        lambda *told: None, contender, contender, device, plan, Findings()
    )
    assert latency_s == rounds_of(found).latency_rounds_s[0]
    return found
