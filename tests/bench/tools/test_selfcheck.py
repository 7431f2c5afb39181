"""The self-check: a sound harness passes, and a broken one fails."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import cycle, pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import scipy.stats
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.columns import Rounds
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import comparison as measuring
from modescope.bench.timing import timers
from modescope.bench.timing.paired import play_pairs
from modescope.bench.timing.timers import Timing, latency
from modescope.bench.tools.selfcheck import __main__ as program
from modescope.bench.tools.selfcheck import corunners, exact, races
from modescope.bench.tools.selfcheck.check import CheckRow, Setting, most
from modescope.bench.tools.selfcheck.races import FIXED, Slowdown, Trial, adaptive, race
from modescope.bench.tools.selfcheck.workloads import (
    SPIN_S,
    WAIT_S,
    WORKLOADS,
    Workload,
    delay,
    lengthen,
    plant,
)
from tests.helpers import simulated
from tests.helpers.processes import alive, soon
from tests.helpers.simulated import SimulatedDevice

QUICK = Setting(Cpu(), thorough=False)


@pytest.fixture(autouse=True, scope="module")
def program_settings() -> Iterator[None]:
    """One thread, and little garbage to collect before each comparison, as in the program."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("trials", [10, 15, 60, 99, 100, 1020])
@pytest.mark.parametrize("share", [0.005, 0.05])
def test_accepted_counts_allow_for_chance(trials: int, share: float) -> None:
    """A harness that just meets its stated rate falls short with p < 0.0001."""
    assert most(trials, share) == scipy.stats.binom.ppf(1 - 1e-4, trials, share)


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


def test_a_planted_wait_is_measured_exactly() -> None:
    read_s = latency(delay(2e-3), Cpu(), 20)
    assert min(read_s.samples_s) == pytest.approx(2e-3, rel=0.02)


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


@pytest.mark.parametrize(("turn_s", "agrees"), [(exact.QUEUE_TURN_S, True), (1e-3, False)])
def test_the_wait_at_the_end_of_a_block_needs_long_turns(
    turn_s: float, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock where a step takes 7 µs and waiting for an idle device 10 µs."""
    device, call_s, wait_s = SimulatedDevice(), 7e-6, 10e-6
    step, joined = simulated.step(device, (call_s, 2e-6)), device.synchronize

    def wait() -> None:
        joined()
        device.now_s += wait_s

    class Timer:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            pass

        def timeit(self, number: int) -> Any:
            begin_s = device.now_s
            for _ in range(number):
                step()
            wait()
            return SimpleNamespace(raw_times=[device.now_s - begin_s])

    monkeypatch.setattr(exact, "QUEUE_TURN_S", turn_s)
    monkeypatch.setattr(exact, "benchmark", SimpleNamespace(Timer=Timer))
    monkeypatch.setattr(device, "synchronize", wait)
    ratio = exact.ours_over_theirs(step, call_s + wait_s, device, 12, "seed")
    assert (abs(ratio - 1) <= exact.AGREES) is agrees


@pytest.mark.parametrize(("theirs_ms", "holds"), [(2.0, True), (2.1, False)])
def test_device_time_is_held_against_triton(
    theirs_ms: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    testing: Any = ModuleType("triton.testing")
    testing.do_bench = testing.do_bench_cudagraph = lambda *_, return_mode: [theirs_ms] * 3
    for name, module in (("triton", ModuleType("triton")), ("triton.testing", testing)):
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(exact, "SIDE", 2)
    monkeypatch.setattr(exact, "device_time", lambda *_: Timing((2e-3,)))
    gpu: Any = SimpleNamespace(type="cuda", torch_device="cpu")
    assert _holds(exact.triton_bench(Setting(gpu, thorough=False))) == [holds, holds]


def test_what_needs_a_gpu_is_undecided_without_one() -> None:
    for check in (exact.planted_spins, exact.separation, exact.triton_bench):
        assert _holds(check(QUICK)) == [None]


def _trial(
    low: float, high: float, *flags: str, timed_s: float = 0.1, load_known: bool = True
) -> Trial:
    return Trial(Estimate((low * high) ** 0.5, low, high), flags, timed_s, load_known)


def _outcomes(check: Any, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool | None]:
    monkeypatch.setattr(races, "race", lambda *args, **kwargs: trial)
    monkeypatch.setattr(races, "CONDITIONS", dict.fromkeys(corunners.CONDITIONS, nullcontext))
    calm = {name: (slowdown, nullcontext) for name, (slowdown, _) in races.DISTURBANCES.items()}
    monkeypatch.setattr(races, "DISTURBANCES", calm)
    return {f"{o.check}, {o.condition}": o.holds for o in check(QUICK)}


@pytest.mark.parametrize(
    ("trial", "falls_short"),
    [
        (_trial(0.995, 1.005), set()),
        (_trial(1.002, 1.005), {"interval excludes 1"}),
        (_trial(1.012, 1.015), {"interval excludes 1", "verdict beyond 1 %"}),
        (_trial(0.995, 1.005, "drift"), {"any flag of the ratio"}),
        (_trial(0.995, 1.005, "contended"), set()),
    ],
    ids=["sound", "alarms", "verdicts", "flags", "flags of the machine"],
)
def test_too_many_false_alarms_fail_the_check(
    trial: Trial, falls_short: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _outcomes(races.equal_steps, trial, monkeypatch)
    short = {check.split(": ")[1].split(",")[0] for check, ok in result.items() if ok is False}
    assert len(result) == 6
    assert short == falls_short


@pytest.mark.parametrize(
    ("trial", "sound"),
    [
        (_trial(0.97, 0.98, "contended"), True),
        (_trial(0.97, 1.01, "contended"), False),
        (_trial(1.01, 1.02, "contended"), False),
        (_trial(0.97, 0.98), False),
        (_trial(0.97, 0.98, "contended", timed_s=0.2), False),
    ],
    ids=["detected", "missed", "wrong sign", "not flagged", "too late"],
)
def test_planted_changes_must_be_detected(
    trial: Trial, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(_outcomes(races.planted_changes, trial, monkeypatch).values()) is sound


@pytest.mark.parametrize(
    ("trial", "sound"),
    [
        (_trial(0.999, 1.001, "contended"), True),
        (_trial(1.02, 1.03, "contended"), False),
        (_trial(0.999, 1.001), False),
    ],
    ids=["right", "ratio off", "flag missing"],
)
def test_disturbances_must_leave_the_ratio(
    trial: Trial, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _outcomes(races.disturbances, trial, monkeypatch)
    assert (False not in result.values()) is sound


def test_without_system_counters_contention_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = _trial(0.999, 1.001, load_known=False)
    result = _outcomes(races.disturbances, trial, monkeypatch)
    assert [holds for check, holds in result.items() if "contended" in check] == [None]


def test_the_seed_decides_the_trials() -> None:
    one, other = (Setting(Cpu(), thorough=False, seed=seed) for seed in (0, 1))
    seeds = [list(each) for each in (one.seeds(3, "a"), one.seeds(3, "b"), other.seeds(3, "a"))]
    assert list(one.seeds(3, "a")) == seeds[0] != seeds[1] != seeds[2] != seeds[0]


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_workloads_run_and_share_no_memory(name: str) -> None:
    one, other = WORKLOADS[name](), WORKLOADS[name]()
    one()
    addresses = [{tensor.data_ptr() for tensor in work.tensors} for work in (one, other)]
    assert not addresses[0] & addresses[1]


LOOK_S = 50e-9  # of a clock


@pytest.mark.parametrize("asking_s", [0.0, 1e-6], ids=["share at hand", "share takes time"])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.5])
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
    trial = race(longer, plain, device, adaptive(2.0), 0)
    assert (trial.sign, estimates.verdict(trial.speedup)) == (-1, "slower")


class Simulated(SimulatedDevice):
    """Spins take simulated time; other work runs on the CPU and takes none."""

    torch_device = torch.device("cpu")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Rounds]:
    """The rounds of every comparison, which a trial does not keep."""
    observed: list[Rounds] = []

    def kept(*arguments: Any) -> Rounds:
        observed.append(play_pairs(*arguments))
        return observed[-1]

    monkeypatch.setattr(measuring, "play_pairs", kept)
    return observed


def _disturbed(slowdown: Slowdown) -> Trial:
    device: Any = Simulated()
    return races.disturbed_race(slowdown, Setting(device, thorough=False), 0)


def test_a_disturbance_reaches_the_second_block_of_each_round(played: list[Rounds]) -> None:
    """1.5 times as long in every second block: the order effect is flagged, the ratio is right."""
    trial = _disturbed(lambda played, second: 0.5 * second)
    assert trial.speedup.value == pytest.approx(1, abs=0.01)
    assert "order_effect" in trial.flags
    (observed,) = played
    first_s, second_s = SPIN_S, 1.5 * SPIN_S
    assert len(observed.latency_rounds_s) == FIXED.max_rounds
    assert observed.latency_rounds_s == pytest.approx(
        [first_s if f else second_s for f in observed.case_ran_first]
    )
    assert observed.baseline_latency_rounds_s == pytest.approx(
        [second_s if f else first_s for f in observed.case_ran_first]
    )


def test_a_disturbance_follows_the_rounds(played: list[Rounds]) -> None:
    """Twice as long at the end as at the start: the ratio is right, and no flag is up."""
    trial = _disturbed(lambda played, second: played)
    assert trial.speedup.value == pytest.approx(1, abs=0.01)
    assert "drift" not in trial.flags
    (observed,) = played
    ramp = [SPIN_S * (1 + at / FIXED.max_rounds) for at in range(FIXED.max_rounds)]
    assert observed.latency_rounds_s == pytest.approx(ramp)
    assert observed.baseline_latency_rounds_s == pytest.approx(ramp)


def _cpu_ticks(process: int) -> int:
    """In user and system mode, as /proc has it (man 5 proc)."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def test_co_runners_are_busy_and_end_with_their_block() -> None:
    mine = f"{corunners.BUSY}\0{os.getpid()}\0"
    with corunners.co_runners(2):
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
    monkeypatch.setattr(program, "CHECKS", {"one": lambda setting: iter([row])})
    assert program.main(["--device", "cpu"]) == status
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "a check" in line)
    cells = [cell.strip() for cell in line.replace("\\|", "or").strip("|").split("|")]
    assert cells == [program.MARKS[holds], "a check", "quiet", "2 or 3", "5"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--only", "speed"], "--only speed: allowed are delays"),
        (["--thorugh"], "unrecognized arguments: --thorugh"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["--device", "tpu"], "device=tpu"),
    ],
)
def test_invalid_arguments_get_one_sentence(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(words) == 2
    complaint = capsys.readouterr().err
    assert text in complaint
    assert len(complaint.splitlines()) == 1
