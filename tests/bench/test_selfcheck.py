"""The self-check: a sound harness holds, a broken one falls short, and the reader is told."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from bench import diagnostics, rounds, stats, timers
from bench.devices import Cpu
from bench.rounds import Rounds
from bench.selfcheck import __main__ as program
from bench.selfcheck import disturbances, exact, races, theory, trials
from bench.selfcheck.checks import CHECKS
from bench.selfcheck.disturbances import Disturbance
from bench.selfcheck.outcomes import Outcome, Setting, most
from bench.selfcheck.trials import FIXED_ROUNDS, Trial, adaptive, race
from bench.stats import Estimate
from bench.testbed import corunners
from bench.testbed.simulated import SimulatedDevice
from bench.testbed.workloads import (
    SPIN_S,
    WAIT_S,
    WORKLOADS,
    Workload,
    delay,
    lengthened,
    planted,
)
from bench.timers import Timing, latency
from tests.processes import alive, soon

QUICK = Setting(Cpu(), thorough=False)


@pytest.fixture(autouse=True, scope="module")
def as_the_program_does() -> Iterator[None]:
    """One thread, and little garbage to collect before each comparison."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    torch.set_num_threads(threads)


def _binomial(k: int, n: int, share: float) -> float:
    """P(at most k of n)."""
    return sum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize("trials_", [10, 15, 60, 99])
def test_few_trials_allow_for_chance(trials_: int) -> None:
    allowed = most(trials_, 0.05)
    assert _binomial(allowed, trials_, 0.05) >= 0.99
    assert _binomial(allowed - 1, trials_, 0.05) < 0.99


def test_many_trials_are_taken_as_they_are() -> None:
    assert most(100, 0.05) == 5
    assert most(1000, 0.069) == 69
    assert most(1020, 0.005) == 5


def _holds(outcomes: Iterator[Outcome]) -> list[bool | None]:
    return [outcome.holds for outcome in outcomes]


@pytest.mark.parametrize(("share", "holds"), [(1.0, True), (1.004, True), (1.02, False)])
def test_a_latency_that_is_off_falls_short(
    share: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "CONDITIONS", dict.fromkeys(("quiet", "one co-runner"), nullcontext))
    monkeypatch.setattr(exact, "latency", _wait_read_as(share))
    assert set(_holds(exact.planted_delays(QUICK))) == {holds}


def _wait_read_as(share: float) -> Any:
    """A `latency` that asks the planted steps how long they wait instead of waiting."""
    waits = cycle(exact.DELAYS_S)
    return lambda step, device, calls: Timing((share * next(waits),))


def test_a_wait_is_read_as_long_as_it_is() -> None:
    read_s = latency(delay(2e-3), Cpu(), 20)
    assert min(read_s.samples_s) == pytest.approx(2e-3, rel=0.02)


def test_host_and_device_are_told_apart_on_the_simulated_clock() -> None:
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
def test_a_clock_that_asks_another_question_falls_short(
    clock: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, of_host, of_device = exact.SEPARATION[clock]
    monkeypatch.setitem(exact.SEPARATION, clock, (wrong, of_host, of_device))
    short = [row.check for row in exact.separation(QUICK) if row.holds is False]
    assert short
    assert all(check.endswith(clock) for check in short)


@pytest.mark.parametrize(("pace", "holds"), [(1.0, True), (1.01, False)])
def test_a_clock_that_runs_fast_falls_short(
    pace: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 0.02)
    device = Cpu()
    monkeypatch.setattr(device, "clock", lambda: pace * time.perf_counter(), raising=False)
    (row,) = exact.clock_itself(Setting(device, thorough=False))
    assert row.holds is (holds if hasattr(time, "CLOCK_MONOTONIC_RAW") else None)


def test_intervals_cover_what_they_promise() -> None:
    assert set(_holds(theory.coverage(QUICK))) == {True}


def test_intervals_that_are_too_narrow_fall_short(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = stats.median_interval
    monkeypatch.setattr(stats, "median_interval", lambda values: honest(values, alpha=0.15))
    assert False in _holds(theory.coverage(QUICK))


def test_a_planted_ratio_lies_inside_its_interval() -> None:
    assert _holds(theory.planted_ratio(QUICK)) == [True]


@pytest.mark.parametrize("alpha", [0.2, 1e-9], ids=["too narrow", "too wide"])
def test_an_interval_of_another_level_falls_short(
    alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = stats.speedup
    monkeypatch.setattr(stats, "speedup", lambda case, baseline: honest(case, baseline, alpha))
    assert _holds(theory.planted_ratio(QUICK)) == [False]


def _trial(low: float, high: float, *flags: str, timed_s: float = 0.1) -> Trial:
    estimate = Estimate((low * high) ** 0.5, low, high)
    return Trial(estimate, flags, timed_s, kept_pace=True)


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
        (_trial(0.995, 1.005, "drift"), {"any flag"}),
        (replace(_trial(0.995, 1.005, "drift"), kept_pace=False), set()),
    ],
    ids=["sound", "alarms", "verdicts", "flags", "flags of the machine"],
)
def test_false_alarms_fall_short(
    trial: Trial, falls_short: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _outcomes(races.equal_steps, trial, monkeypatch)
    short = {check.split(": ")[1].split(",")[0] for check, ok in found.items() if ok is False}
    assert len(found) == 7
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
    ids=["seen", "missed", "wrong sign", "not flagged", "too late"],
)
def test_planted_changes_must_be_seen(
    trial: Trial, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(_outcomes(races.planted_changes, trial, monkeypatch).values()) is sound


def test_half_a_percent_is_reported_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 2)
    monkeypatch.setattr(races, "race", lambda *args: _trial(0.99, 1.01, "contended"))
    monkeypatch.setattr(races, "CONDITIONS", {"quiet": nullcontext})
    rows = list(races.planted_changes(replace(QUICK, thorough=True)))
    assert [(row.accepted, row.holds) for row in rows if "0.5" in row.check] == [
        ("wrong sign never", True)
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
def test_disturbances_must_be_told(
    trial: Trial, sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _outcomes(disturbances.disturbances, trial, monkeypatch)
    assert (False not in found.values()) is sound


def test_disturbances_on_a_simulated_clock_are_told() -> None:
    assert _holds(disturbances.simulated_disturbances(QUICK)) == [True] * 4


def test_flags_that_are_raised_by_nothing_fall_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "DRIFT_P", 0.5)
    monkeypatch.setattr(diagnostics, "DURATION_DRIFT", 0.0)
    calm, *_ = disturbances.simulated_disturbances(QUICK)
    assert calm.check == "nothing: any flag"
    assert calm.holds is False


def test_disturbances_are_judged_where_nothing_else_disturbed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In every other trial the machine kept its pace; in those between a flag is missing."""
    sound = _trial(0.999, 1.001, "drift", "order_effect")
    drowned = replace(_trial(1.02, 1.03), kept_pace=False)
    course = cycle([drowned, sound])
    only = [each for each in disturbances.DISTURBANCES if each.witnessed]
    monkeypatch.setattr(disturbances, "_disturbed_race", lambda *_: next(course))
    monkeypatch.setattr(disturbances, "DISTURBANCES", only)
    rows = list(disturbances.disturbances(QUICK))
    assert {(row.trials, row.holds) for row in rows} == {(15, True)}
    assert {row.found for row in rows if "ratio" in row.check} == {
        "15 of 15, off by at most 5e-05 %; besides 0 of 15 while it did not"
    }


def test_a_machine_that_never_keeps_its_pace_decides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restless = replace(_trial(0.999, 1.001), kept_pace=False)
    found = _outcomes(disturbances.disturbances, restless, monkeypatch)
    assert [holds for check, holds in found.items() if "third copy" in check] == [None] * 6
    (quiet,) = (
        h
        for c, h in _outcomes(races.equal_steps, restless, monkeypatch).items()
        if "third copy" in c
    )
    assert quiet is None


def test_a_third_copy_stands_beside_equal_steps_where_it_is_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, list[Any]] = {"quiet": [], "one co-runner": []}

    def as_told(name: str) -> Any:
        return lambda: nullcontext(monkeypatch.setattr(races, "race", noting(asked[name])))

    def noting(into: list[Any]) -> Any:
        def race(case: Any, baseline: Any, *_: Any, witness: Any) -> Trial:
            into.append((case, baseline, witness))
            return _trial(0.999, 1.001)

        return race

    monkeypatch.setattr(races, "CONDITIONS", {name: as_told(name) for name in asked})
    list(races.equal_steps(QUICK))
    assert all(witness is None for *_, witness in asked["one co-runner"])
    assert len(asked["quiet"]) == len(asked["one co-runner"]) > 0
    for raced in asked["quiet"]:
        addresses = [tensor.data_ptr() for step in raced for tensor in step.tensors]
        assert len(set(addresses)) == len(addresses)


def test_where_the_system_does_not_count_nothing_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    blind = replace(_trial(0.999, 1.001), watched=False)
    found = _outcomes(disturbances.disturbances, blind, monkeypatch)
    (row,) = (holds for check, holds in found.items() if "contended" in check)
    assert row is None


def test_another_seed_plays_other_trials() -> None:
    one, other = (Setting(Cpu(), thorough=False, seed=seed) for seed in (0, 1))
    assert one.seeds(3, "a") == one.seeds(3, "a") != one.seeds(3, "b") != other.seeds(3, "a")


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_workloads_run_and_share_no_memory(name: str) -> None:
    one, other = WORKLOADS[name](), WORKLOADS[name]()
    one()
    addresses = [{tensor.data_ptr() for tensor in work.tensors} for work in (one, other)]
    assert not addresses[0] & addresses[1]


LOOK_S = 50e-9  # at a clock


@pytest.mark.parametrize("asking_s", [0.0, 1e-6], ids=["share at hand", "share takes time"])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.5])
def test_a_call_is_longer_by_the_share_that_was_asked_for(share: float, asking_s: float) -> None:
    """Of what this pair of calls takes, not an earlier one."""
    device = SimulatedDevice(queues=False, read_cost_s=LOOK_S)
    works_s = (50e-6, 90e-6, 30e-6)

    def asked(share: float) -> float:
        device.launch(asking_s, 0.0)
        return share

    def seconds(share: float) -> list[float]:
        coming_s = iter(works_s)
        work = Workload(lambda: device.launch(next(coming_s), 0.0))
        step = lengthened(work, partial(asked, share), device)
        ends_s = [device.now_s]
        for _ in works_s:
            step()
            ends_s.append(device.now_s)
        return [end - start for start, end in pairwise(ends_s)]

    for work_s, plain_s, longer_s in zip(works_s, seconds(0.0), seconds(share), strict=True):
        call_s = plain_s - asking_s
        assert call_s >= work_s + WAIT_S
        assert longer_s - plain_s == pytest.approx(share * call_s, abs=2.1 * LOOK_S)


def test_a_race_sees_a_large_planted_slowdown() -> None:
    work, other = WORKLOADS["matmul"](), WORKLOADS["matmul"]()
    device = Cpu()
    longer, plain = planted(work, 1.0, device), planted(other, 0.0, device)
    trial = race(longer, plain, device, adaptive(2.0), 0)
    assert (trial.sign, trial.verdict_sign) == (-1, -1)


class Simulated(SimulatedDevice):
    """Spins take simulated time; what is worked on besides lies on the CPU and takes none."""

    torch_device = torch.device("cpu")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Rounds]:
    """The rounds of every race, which a trial keeps no longer than it needs them."""
    seen: list[Rounds] = []

    def kept(*arguments: Any) -> Rounds:
        seen.append(rounds.paired(*arguments))
        return seen[-1]

    monkeypatch.setattr(trials, "paired", kept)
    return seen


def _disturbed(each: Disturbance) -> Trial:
    device: Any = Simulated()
    return disturbances._disturbed_race(each, Setting(device, thorough=False), 0)


def test_a_disturbance_reaches_the_second_block_of_each_round(played: list[Rounds]) -> None:
    """Half as much again in every second block: the order shows, the ratio does not."""
    trial = _disturbed(Disturbance("a load", "order_effect", lambda round_, second: 0.5 * second))
    assert trial.ratio.value == pytest.approx(1, abs=0.01)
    assert "order_effect" in trial.flags
    (seen,) = played
    first_s, second_s = SPIN_S, 1.5 * SPIN_S
    assert len(seen.case_s) == FIXED_ROUNDS
    assert seen.case_s == pytest.approx([first_s if f else second_s for f in seen.case_first])
    assert seen.baseline_s == pytest.approx([second_s if f else first_s for f in seen.case_first])


def test_a_disturbance_follows_the_rounds(played: list[Rounds]) -> None:
    """Twice as long at the end as at the start: the rounds drift, the ratio does not."""
    trial = _disturbed(Disturbance("a ramp", "drift", lambda round_, _: round_ / FIXED_ROUNDS))
    assert trial.ratio.value == pytest.approx(1, abs=0.01)
    assert "drift" in trial.flags
    assert trial.kept_pace
    (seen,) = played
    ramp = [SPIN_S * (1 + round_ / FIXED_ROUNDS) for round_ in range(FIXED_ROUNDS)]
    assert seen.case_s == pytest.approx(ramp)
    assert seen.baseline_s == pytest.approx(ramp)


def _cpu_ticks(process: int) -> int:
    """In user and system mode, as /proc has it (man 5 proc)."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[11]) + int(after_name[12])


def test_co_runners_are_busy_and_gone_afterwards() -> None:
    mine = f"{corunners.BUSY}\0{os.getpid()}\0"
    with corunners.co_runners(2):
        started = alive(mine)
        assert len(started) == 2
        assert soon(lambda: min(map(_cpu_ticks, started)) > 5, within_s=10.0)
    assert alive(mine) == []


def _finding(holds: bool | None) -> Any:
    def check(setting: Setting) -> Iterator[Outcome]:
        yield Outcome("a check", "quiet", "2 | 3", "5", holds, 7, 0.5)

    return check


@pytest.mark.parametrize(("holds", "status"), [(True, 0), (None, 0), (False, 1)])
def test_the_exit_status_says_whether_something_falls_short(
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


def test_the_last_line_says_what_can_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    seen = [
        Outcome(races.seen_check(races.CHANGES[0]), "quiet", "", "", True, 10, 0.0123),
        Outcome(races.seen_check(races.CHANGES[0]), "one co-runner", "", "", True, 10, 0.5),
    ]
    assert program.summary(seen).splitlines() == [
        "2 of 2 checks hold.",
        "This machine, today: a change of 1.2 % can be seen in 0.1 s.",
    ]


def test_what_is_done_is_kept_when_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(setting: Setting) -> Iterator[Outcome]:
        yield from _finding(True)(setting)
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "CHECKS", {"one": interrupted})
    assert program.main(["--results-dir", str(tmp_path), "--device", "cpu"]) == 130
    assert "stopped; the 1 rows above are kept" in capsys.readouterr().out
    assert list((tmp_path / "selfcheck").glob("*.md"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "speed"], "--only speed: allowed are clock, delays"),
        (["--thorugh"], "unrecognized arguments: --thorugh"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["--device", "tpu"], "device=tpu"),
        (["--results-dir", "/proc/none"], "--results-dir"),
    ],
)
def test_wrong_words_get_one_sentence(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(words) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert len(complaint.splitlines()) == 1


def test_every_check_says_what_it_does() -> None:
    assert all(check.__doc__ for check in CHECKS.values())
    assert trials.FIXED.pilot_rounds >= stats.MIN_ROUNDS
