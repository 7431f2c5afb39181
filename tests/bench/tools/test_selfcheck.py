"""The self-check: a sound harness passes, a broken one fails, and the results are printed."""

from __future__ import annotations

import gc
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from importlib.machinery import ModuleSpec
from itertools import cycle, pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats
import torch
from numpy.typing import NDArray

from modescope.bench.devices.devices import Cpu
from modescope.bench.records.columns import Rounds
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.stats.estimates import Estimate
from modescope.bench.timing import comparison as measuring
from modescope.bench.timing import timers
from modescope.bench.timing.paired import paired
from modescope.bench.timing.timers import Timing, latency
from modescope.bench.tools.selfcheck import __main__ as program
from modescope.bench.tools.selfcheck import disturbances, exact, races, theory, trials
from modescope.bench.tools.selfcheck.checks import CHECKS
from modescope.bench.tools.selfcheck.disturbances import DISTURBANCES, Disturbance
from modescope.bench.tools.selfcheck.outcomes import CheckRow, Setting, most, quantile
from modescope.bench.tools.selfcheck.trials import FIXED_ROUNDS, Trial, adaptive, race
from modescope.bench.tools.testbed import corunners, simulated
from modescope.bench.tools.testbed.sides import Side
from modescope.bench.tools.testbed.simulated import SimulatedDevice
from modescope.bench.tools.testbed.workloads import (
    SPIN_S,
    WAIT_S,
    WORKLOADS,
    Workload,
    delay,
    lengthened,
    planted,
)
from tests.helpers.processes import alive, soon

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


@pytest.mark.parametrize("trials_", [10, 15, 60, 99, 2000])
@pytest.mark.parametrize("share", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("probability", [0.005, 0.3, 0.99])
def test_quantile_is_that_of_scipy(trials_: int, share: float, probability: float) -> None:
    expected = scipy.stats.binom.ppf(probability, trials_, share)
    assert quantile(trials_, share, probability) == expected


@pytest.mark.parametrize("trials_", [10, 15, 60, 99, 100, 1020])
@pytest.mark.parametrize("share", [0.005, 0.05])
def test_accepted_counts_allow_for_chance(trials_: int, share: float) -> None:
    """A harness that just meets its stated rate falls short with p < 0.0001."""
    allowed = most(trials_, share)
    assert scipy.stats.binom.sf(allowed, trials_, share) < 1e-4
    assert scipy.stats.binom.sf(allowed - 1, trials_, share) >= 1e-4


def _holds(outcomes: Iterator[CheckRow]) -> list[bool | None]:
    return [outcome.holds for outcome in outcomes]


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (1.004, True), (1.02, False)])
def test_an_inaccurate_latency_fails_the_check(
    share: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "CONDITIONS", dict.fromkeys(("quiet", "one co-runner"), nullcontext))
    monkeypatch.setattr(exact, "latency", _wait_read_as(share))
    assert set(_holds(exact.planted_delays(QUICK))) == {holds}


def _wait_read_as(share: float) -> Any:
    """A `latency` that reads the planted duration of a step instead of waiting."""
    waits = cycle(exact.DELAYS_S)
    return lambda step, device, calls: Timing((share * next(waits),))


def test_a_planted_wait_is_measured_exactly() -> None:
    read_s = latency(delay(2e-3), Cpu(), 20)
    assert min(read_s.samples_s) == pytest.approx(2e-3, rel=0.02)


def test_host_and_device_are_separated_on_the_simulated_clock() -> None:
    rows = list(exact.separation(QUICK))
    assert [row.holds for row in rows] == [True] * 8 + [None]
    assert rows[-1].found == "needs a CUDA GPU"


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
    _, of_host, of_device = exact.SEPARATION[clock]
    monkeypatch.setitem(exact.SEPARATION, clock, (wrong, of_host, of_device))
    short = [row.check for row in exact.separation(QUICK) if row.holds is False]
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
    of = Side(Workload(step), call_s + wait_s)
    ratio = exact.ours_over_theirs(of, device, 12, "seed")
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


@pytest.mark.parametrize(("pace", "holds"), [(1.0, True), (1.01, False)])
def test_a_fast_clock_fails_the_check(
    pace: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 0.02)
    device = Cpu()
    monkeypatch.setattr(device, "clock", lambda: pace * time.perf_counter(), raising=False)
    (row,) = exact.clock_itself(Setting(device, thorough=False))
    assert row.holds is (holds if hasattr(time, "CLOCK_MONOTONIC_RAW") else None)


def test_intervals_reach_their_coverage() -> None:
    assert set(_holds(theory.coverage(QUICK))) == {True}


def test_too_narrow_intervals_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = estimates.median_interval
    monkeypatch.setattr(estimates, "median_interval", lambda values: honest(values, alpha=0.15))
    assert False in _holds(theory.coverage(QUICK))


@pytest.mark.full
def test_a_planted_ratio_lies_inside_its_interval() -> None:
    assert _holds(theory.planted_ratio(QUICK)) == [True]


@pytest.mark.full
@pytest.mark.parametrize("alpha", [0.2, 1e-9], ids=["too narrow", "too wide"])
def test_an_interval_of_another_level_fails_the_check(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = estimates.speedup

    def at_another_level(case: Any, baseline: Any, case_first: Any = None) -> Estimate | None:
        return honest(case, baseline, case_first, alpha)

    monkeypatch.setattr(estimates, "speedup", at_another_level)
    assert _holds(theory.planted_ratio(QUICK)) == [False]


def _trial(low: float, high: float, *flags: str, timed_s: float = 0.1) -> Trial:
    estimate = Estimate((low * high) ** 0.5, low, high)
    noise = np.random.default_rng(0).normal(math.log(estimate.value), 0.02, FIXED_ROUNDS)
    return Trial(estimate, flags, timed_s, tuple(noise))


def _outcomes(check: Any, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool | None]:
    monkeypatch.setattr(races, "race", lambda *args, **kwargs: trial)
    monkeypatch.setattr(races, "CONDITIONS", dict.fromkeys(corunners.CONDITIONS, nullcontext))
    monkeypatch.setattr(disturbances, "race", lambda *args, **kwargs: trial)
    calm = [replace(each, condition=nullcontext) for each in disturbances.DISTURBANCES]
    monkeypatch.setattr(disturbances, "DISTURBANCES", calm)
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


def test_a_change_of_half_a_percent_is_reported_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 10)
    monkeypatch.setattr(races, "race", lambda *args: _trial(0.99, 1.01, "contended"))
    monkeypatch.setattr(races, "CONDITIONS", {"quiet": nullcontext})
    rows = list(races.planted_changes(replace(QUICK, thorough=True)))
    assert [(row.accepted, row.holds) for row in rows if "0.5" in row.check] == [
        ("wrong sign 0", True)
    ]
    assert [row.holds for row in rows if "0.5" not in row.check] == [False] * 3


@pytest.mark.parametrize(
    ("trial", "sound"),
    [
        (_trial(0.999, 1.001, "drift", "order_effect", "contended"), True),
        (_trial(1.02, 1.03, "drift", "order_effect", "contended"), False),
        (_trial(0.999, 1.001, "drift", "order_effect"), False),
    ],
    ids=["right", "ratio off", "flag missing"],
)
def test_unflagged_disturbances_fail_the_check(
    trial: Trial, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = _outcomes(disturbances.disturbances, trial, monkeypatch)
    assert (False not in result.values()) is sound


@pytest.mark.full
def test_disturbances_on_a_simulated_clock_are_flagged_where_the_ratio_changes() -> None:
    rows = list(disturbances.simulated_disturbances(QUICK))
    assert {row.check.split(": ")[1] for row in rows} == {
        "any flag",
        "flagged drift",
        "flagged order_effect",
    }
    assert [row.holds for row in rows] == [True] * 6


def test_conditions_of_the_machine_are_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 2)
    planted = (
        Disturbance("of the machine", "drift", condition=lambda: corunners.co_runners(1)),
        Disturbance("of the clock", "contended"),
    )
    monkeypatch.setattr(disturbances, "DISTURBANCES", planted)
    rows = disturbances.simulated_disturbances(QUICK)
    assert [row.check.partition(":")[0] for row in rows] == ["no disturbance", "of the clock"]


@pytest.mark.full
def test_flags_without_a_disturbance_fail_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "DRIFT_P", 0.5)
    monkeypatch.setattr(diagnostics, "RATIO_DRIFT", 0.0)
    calm, *_ = disturbances.simulated_disturbances(QUICK)
    assert calm.check == "no disturbance: any flag"
    assert calm.holds is False


def test_without_system_counters_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind = replace(_trial(0.999, 1.001), watched=False)
    result = _outcomes(disturbances.disturbances, blind, monkeypatch)
    (row,) = (holds for check, holds in result.items() if "contended" in check)
    assert row is None


def test_the_seed_decides_the_trials() -> None:
    one, other = (Setting(Cpu(), thorough=False, seed=seed) for seed in (0, 1))
    assert one.seeds(3, "a") == one.seeds(3, "a") != one.seeds(3, "b") != other.seeds(3, "a")


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
        step = lengthened(work, partial(costly, share), device)
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
    longer, plain = planted(work, 1.0, device), planted(other, 0.0, device)
    trial = race(longer, plain, device, adaptive(2.0), 0)
    assert (trial.sign, trial.verdict_sign) == (-1, -1)


class Simulated(SimulatedDevice):
    """Spins take simulated time; other work runs on the CPU and takes none."""

    torch_device = torch.device("cpu")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Rounds]:
    """The rounds of every comparison, which a trial does not keep."""
    observed: list[Rounds] = []

    def kept(*arguments: Any) -> Rounds:
        observed.append(paired(*arguments))
        return observed[-1]

    monkeypatch.setattr(measuring, "paired", kept)
    return observed


def _disturbed(each: Disturbance) -> Trial:
    device: Any = Simulated()
    return disturbances._disturbed_race(each, Setting(device, thorough=False), 0)


def test_a_disturbance_reaches_the_second_block_of_each_round(played: list[Rounds]) -> None:
    """1.5 times as long in every second block: the order effect is flagged, the ratio is right."""
    trial = _disturbed(Disturbance("a load", "order_effect", lambda played, second: 0.5 * second))
    assert trial.ratio.value == pytest.approx(1, abs=0.01)
    assert "order_effect" in trial.flags
    calm, observed = played
    first_s, second_s = SPIN_S, 1.5 * SPIN_S
    assert set(calm.case_ran_first) == {True, False}
    assert len(observed.latency_rounds_s) == FIXED_ROUNDS
    assert observed.latency_rounds_s == pytest.approx(
        [first_s if f else second_s for f in observed.case_ran_first]
    )
    assert observed.baseline_latency_rounds_s == pytest.approx(
        [second_s if f else first_s for f in observed.case_ran_first]
    )


def _doubling(played: float, second: bool) -> float:
    return played


RAMP = [SPIN_S * (1 + round_ / FIXED_ROUNDS) for round_ in range(FIXED_ROUNDS)]


@pytest.mark.parametrize(
    ("half_width", "flag", "rounds"),
    [
        (0.001, None, FIXED_ROUNDS),
        (0.005, None, 270),
        (0.1, None, disturbances.MOST_ROUNDS),
        (0.001, "drift", 444),
        (0.1, "drift", disturbances.MOST_ROUNDS),
    ],
)
def test_a_disturbed_comparison_has_the_rounds_that_its_noise_needs(
    half_width: float, flag: str | None, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-width of a sixth of 2 %: (0.005 * 300)**2 times the 120 rounds of the calm one."""
    races_of: list[tuple[float, int]] = []

    def kept(each: Disturbance, setting: Setting, seed: int, rounds: int) -> Trial:
        races_of.append((each.slowdown(1.0, False), rounds))
        return _trial(1 / (1 + half_width), 1 + half_width)

    monkeypatch.setattr(disturbances, "_race", kept)
    monkeypatch.setattr(disturbances, "_rounds_of_drift", lambda *arguments: 443)
    _disturbed(Disturbance("a ramp", flag, _doubling))
    assert races_of == [(0.0, FIXED_ROUNDS), (1.0, rounds)]


@pytest.mark.parametrize("noise", [0.02, 0.04])
@pytest.mark.parametrize(
    "each", [d for d in DISTURBANCES if d.flag == "drift"], ids=lambda each: each.name
)
def test_a_drift_is_planted_in_as_many_rounds_as_show_it(each: Disturbance, noise: float) -> None:
    """Half of the rounds are interrupted: the median is known well, and the drift is not."""
    draw = np.random.default_rng(0)

    def ratios(rounds: int) -> NDArray[np.float64]:
        spread = noise * draw.choice([0.3, 3.0], rounds)
        return np.asarray(draw.normal(0, spread), dtype=np.float64)

    flagged = 0
    for seed in range(40):
        rounds = max(FIXED_ROUNDS, disturbances._rounds_of_drift(each, ratios(FIXED_ROUNDS), seed))
        planted = [math.log1p(each.slowdown(i / rounds, False)) for i in range(rounds)]
        effect = diagnostics.drift(ratios(rounds) - planted)
        assert effect is not None
        flagged += effect.p < diagnostics.DRIFT_P
    assert flagged >= 38


def test_a_disturbance_follows_the_rounds(played: list[Rounds]) -> None:
    """Twice as long at the end as at the start: the ratio is right, and no flag is up."""
    trial = _disturbed(Disturbance("a ramp", None, _doubling))
    assert trial.ratio.value == pytest.approx(1, abs=0.01)
    assert "drift" not in trial.flags
    _, observed = played
    assert observed.latency_rounds_s == pytest.approx(RAMP)
    assert observed.baseline_latency_rounds_s == pytest.approx(RAMP)


def test_a_disturbance_of_the_case_alone_is_flagged(played: list[Rounds]) -> None:
    trial = _disturbed(Disturbance("a ramp", "drift", _doubling, case_alone=True))
    assert "drift" in trial.flags
    calm, observed = played
    assert calm.latency_rounds_s == pytest.approx([SPIN_S] * FIXED_ROUNDS)
    assert observed.latency_rounds_s == pytest.approx(RAMP)
    assert observed.baseline_latency_rounds_s == pytest.approx([SPIN_S] * FIXED_ROUNDS)


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


def _finding(holds: bool | None) -> Any:
    def check(setting: Setting) -> Iterator[CheckRow]:
        yield CheckRow("a check", "quiet", "2 | 3", "5", holds, 7, 0.5)

    return check


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_status_says_whether_a_check_fails(
    holds: bool | None,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(program, "CHECKS", {"one": _finding(holds)})
    assert program.main(["--results-dir", str(tmp_path), "--device", "cpu"]) == status
    printed = capsys.readouterr().out
    assert program.MARKS[holds] in printed
    (page,) = (tmp_path / "selfcheck").glob("*.md")
    assert "| a check | quiet | 2 \\| 3 | 5 |" in page.read_text()
    (rows,) = (tmp_path / "selfcheck").glob("*.parquet")
    (row,) = pq.read_table(rows).to_pylist()
    assert (row["holds"], row["trials"], row["value"]) == (holds, 7, 0.5)
    assert row["torch_version"]


def test_the_last_line_names_the_smallest_detectable_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        CheckRow(races.detection_check(races.CHANGES[0]), "quiet", "", "", True, 10, 0.0123),
        CheckRow(races.detection_check(races.CHANGES[0]), "one co-runner", "", "", True, 10, 0.5),
    ]
    assert program.summary(rows).splitlines() == [
        "2 of 2 checks pass.",
        "Smallest detectable change in this run: 1.2 % within 0.1 s.",
    ]


def test_finished_checks_are_kept_when_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(setting: Setting) -> Iterator[CheckRow]:
        yield from _finding(True)(setting)
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "CHECKS", {"one": interrupted})
    assert program.main(["--results-dir", str(tmp_path), "--device", "cpu"]) == 130
    assert "stopped; the 1 rows above are saved" in capsys.readouterr().out
    assert list((tmp_path / "selfcheck").glob("*.md"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--only", "speed"], "--only speed: allowed are clock, delays"),
        (["--thorugh"], "unrecognized arguments: --thorugh"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["--device", "tpu"], "device=tpu"),
        (["--results-dir", "/proc/none"], "--results-dir"),
    ],
)
def test_invalid_arguments_get_one_sentence(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(words) == 2
    complaint = capsys.readouterr().err
    assert text in complaint
    assert len(complaint.splitlines()) == 1


def test_every_check_has_a_docstring() -> None:
    assert all(check.__doc__ for check in CHECKS.values())
    assert trials.FIXED.pilot_rounds >= estimates.MIN_ROUNDS
