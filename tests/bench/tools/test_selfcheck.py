"""The self-check: a sound harness passes, and a broken one fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import torch

from modescope.bench import selfcheck
from modescope.bench.devices.devices import Cpu
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import timers
from modescope.bench.timing.timers import Timing
from modescope.bench.tools.selfcheck import exact, races, workloads
from modescope.bench.tools.selfcheck.check import CheckRow, Setting, most_wrong
from modescope.bench.tools.selfcheck.races import RaceResult, Slowdown, adaptive_budget, race
from modescope.bench.tools.selfcheck.workloads import (
    WAIT_S,
    WORKLOADS,
    Workload,
    lengthen,
    plant,
)
from tests.helpers import simulated
from tests.helpers.processes import alive, soon
from tests.helpers.simulated import SimulatedDevice

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread")

QUICK = Setting(Cpu(), thorough=False)


def test_accepted_counts_allow_for_chance() -> None:
    """A harness that just meets its stated rate falls short with p < 0.0001."""
    for trials, share in ((10, 0.05), (15, 0.05), (100, 0.005), (1020, 0.05)):
        assert most_wrong(trials, share) == scipy.stats.binom.ppf(1 - 1e-4, trials, share)


def _holds(outcomes: Iterator[CheckRow]) -> list[bool | None]:
    return [outcome.holds for outcome in outcomes]


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (1.004, True), (1.02, False)])
def test_an_inaccurate_latency_fails_the_check(
    share: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = cycle(exact.DELAYS_S)
    monkeypatch.setattr(exact, "CONDITIONS", dict.fromkeys(("quiet", "one co-runner"), nullcontext))
    monkeypatch.setattr(exact, "latency", lambda *_: Timing((share * next(waits),)))
    assert set(_holds(exact.planted_delays(QUICK))) == {holds}


def _separation() -> list[CheckRow]:
    base, more_s = (50e-6, exact.WORK_S), exact.MORE_S
    steps = ((base,), ((more_s, 0.0), base), (base, (0.0, more_s)))
    device = SimulatedDevice()
    return list(exact.separation_rows(device, *(simulated.step(device, *each) for each in steps)))


def test_host_and_device_are_separated_on_the_simulated_clock() -> None:
    assert [row.holds for row in _separation()] == [True] * 8


@pytest.mark.parametrize(
    ("clock", "wrong"),
    [
        ("device_s", timers.latency),  # no gate
        ("host_s", timers.latency),  # it waits for the device
        ("latency_s", timers.host),  # it does not
        ("pipelined_s", timers.latency),
    ],
)
def test_a_wrong_clock_fails_the_check(
    clock: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, by_host, by_device = exact.SEPARATION[clock]
    monkeypatch.setitem(exact.SEPARATION, clock, (wrong, by_host, by_device))
    short = [row.check for row in _separation() if not row.holds]
    assert short
    assert all(check.endswith(clock) for check in short)


def test_what_needs_a_gpu_is_undecided_without_one() -> None:
    for check in (exact.planted_spins, exact.separation, exact.triton_bench):
        assert _holds(check(QUICK)) == [None]


def _trial(
    low: float, high: float, *flags: str, timed_s: float = 0.1, load_known: bool = True
) -> RaceResult:
    return RaceResult(Estimate((low * high) ** 0.5, low, high), flags, timed_s, load_known)


@pytest.mark.parametrize(
    ("check", "trial", "short"),
    [
        (races.equal_steps, _trial(0.995, 1.005, "contended"), {}),  # a flag of the machine
        (races.equal_steps, _trial(0.995, 1.005, "drift"), {"any flag of the ratio": False}),
        (races.equal_steps, _trial(1.002, 1.005), {"interval excludes 1": False}),
        (
            races.equal_steps,
            _trial(1.012, 1.015),
            {"interval excludes 1": False, "verdict beyond 1 %": False},
        ),
        (races.planted_changes, _trial(0.97, 0.98, "contended"), {}),
        (races.planted_changes, _trial(0.97, 0.98), {"flagged contended": False}),
        (races.planted_changes, _trial(0.97, 1.01, "contended"), {"detected": False}),
        (races.planted_changes, _trial(1.01, 1.02, "contended"), {"detected": False}),
        (races.planted_changes, _trial(0.97, 0.98, "contended", timed_s=0.2), {"detected": False}),
        (races.disturbances, _trial(0.999, 1.001, "contended"), {}),
        (races.disturbances, _trial(1.02, 1.03, "contended"), {"ratio within 1 %": False}),
        # undecided
        (races.disturbances, _trial(0.999, 1.001, load_known=False), {"flagged contended": None}),
    ],
)
def test_what_falls_short_of_a_check(
    check: Any, trial: RaceResult, short: dict[str, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(races, "race", lambda *args, **kwargs: trial)
    monkeypatch.setattr(races, "CONDITIONS", dict.fromkeys(workloads.CONDITIONS, nullcontext))
    calm = {name: (slowdown, nullcontext) for name, (slowdown, _) in races.DISTURBANCES.items()}
    monkeypatch.setattr(races, "DISTURBANCES", calm)
    rows = list(check(QUICK))
    assert len(rows) >= 5
    assert {row.check.split(": ")[1]: row.holds for row in rows if not row.holds} == short


def test_one_wrong_sign_fails_a_planted_change(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = cycle([_trial(1.01, 1.02), *[_trial(0.97, 0.98)] * 14])
    monkeypatch.setattr(races, "race", lambda *_: next(trials))
    monkeypatch.setattr(races, "CONDITIONS", {"quiet": nullcontext})
    assert _holds(races.planted_changes(QUICK)) == [False] * 3


def test_workloads_run_and_share_no_memory() -> None:
    for build in WORKLOADS.values():
        one, other = build(), build()
        one()
        addresses = [{tensor.data_ptr() for tensor in work.tensors} for work in (one, other)]
        assert not addresses[0] & addresses[1]


LOOK_S = 50e-9  # of a clock


@pytest.mark.parametrize("asking_s", [0.0, 1e-6], ids=["share at hand", "share takes time"])
@pytest.mark.parametrize("share", [0.005, 0.5])
def test_a_call_is_longer_by_the_planted_share(share: float, asking_s: float) -> None:
    """The share refers to this pair of calls, not to an earlier one."""
    device = SimulatedDevice(queues=False, read_cost_s=LOOK_S)
    works_s = (50e-6, 90e-6, 30e-6)

    def costly(share: float) -> float:
        device.launch(asking_s, 0.0)
        return share

    def seconds(share: float) -> list[float]:
        coming_s = iter(works_s)
        work = Workload(lambda: device.launch(next(coming_s), 0.0))
        step = lengthen(work, partial(costly, share), device)
        ends_s = [device.now_s]
        for _ in works_s:
            step()
            ends_s.append(device.now_s)
        return [end - start for start, end in pairwise(ends_s)]

    for work_s, plain_s, longer_s in zip(works_s, seconds(0.0), seconds(share), strict=True):
        call_s = plain_s - asking_s
        assert call_s >= work_s + WAIT_S
        assert longer_s - plain_s == pytest.approx(share * call_s, abs=2.1 * LOOK_S)


def test_a_large_planted_slowdown_is_detected() -> None:
    work, other = WORKLOADS["matmul"](), WORKLOADS["matmul"]()
    device = Cpu()
    longer, plain = plant(work, 1.0, device), plant(other, 0.0, device)
    trial = race(longer, plain, device, adaptive_budget(2.0), 0)
    assert (trial.sign, estimates.verdict(trial.speedup)) == (-1, "slower")


class Simulated(SimulatedDevice):
    """Spins take simulated time; other work runs on the CPU and takes none."""

    torch_device = torch.device("cpu")


@pytest.mark.parametrize(
    ("slowdown", "longer", "flags"),
    [
        (lambda played, second: 0.5 * second, 1.25, {"order_effect"}),
        # twice as long at the end as at the start
        (lambda played, second: played, 1.5, set()),
    ],
)
def test_a_disturbance_leaves_the_ratio_right(
    slowdown: Slowdown, longer: float, flags: set[str]
) -> None:
    device: Any = Simulated()
    setting = Setting(device, thorough=False)
    calm, trial = (
        races.disturbed_race(each, setting, 0) for each in (lambda played, second: 0.0, slowdown)
    )
    assert trial.speedup.value == pytest.approx(1, abs=0.01)
    assert {*trial.flags} - {*calm.flags} == flags
    assert trial.timed_s == pytest.approx(longer * calm.timed_s, rel=0.01)


def _cpu_ticks(process: int) -> int:
    """In user and system mode, as /proc has it (man 5 proc)."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def test_co_runners_are_busy_and_end_with_their_block() -> None:
    mine = f"{workloads.BUSY}\0{os.getpid()}\0"
    with workloads.co_runners(2):
        started = alive(mine)
        assert len(started) == 2
        assert soon(lambda: min(map(_cpu_ticks, started)) > 5, within_s=10.0)
    assert alive(mine) == []


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_status_says_whether_a_check_fails(
    holds: bool | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = CheckRow("a check", "quiet", "2 | 3", "5", holds)
    monkeypatch.setattr(selfcheck, "CHECKS", {"one": lambda setting: iter([row])})
    assert selfcheck.main(["--device", "cpu"]) == status
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "a check" in line)
    cells = [cell.strip() for cell in line.replace("\\|", "or").strip("|").split("|")]
    assert cells == [selfcheck.MARKS[holds], "a check", "quiet", "2 or 3", "5"]
