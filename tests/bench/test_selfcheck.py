"""The self-check: a sound harness holds, a broken one falls short, and the reader is told."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from bench import stats, timers
from bench.devices import Cpu
from bench.selfcheck import __main__ as program
from bench.selfcheck import exact, races, theory, trials
from bench.selfcheck.checks import CHECKS
from bench.selfcheck.outcomes import Outcome, Setting, most
from bench.selfcheck.races import Disturbance
from bench.selfcheck.trials import FIXED, Trial, adaptive, race
from bench.stats import Estimate
from bench.testbed import corunners
from bench.testbed.workloads import WORKLOADS, delay, planted
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


@pytest.mark.parametrize("trials_", [10, 60, 300, 999])
def test_few_trials_allow_for_chance(trials_: int) -> None:
    allowed = most(trials_, 0.05)
    assert _binomial(allowed, trials_, 0.05) >= 0.99
    assert _binomial(allowed - 1, trials_, 0.05) < 0.99


def test_many_trials_are_taken_as_they_are() -> None:
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
    assert [row.holds for row in rows] == [True, True, True, True, None]
    assert rows[-1].found == "needs a CUDA GPU"


def test_a_device_clock_that_holds_the_launches_falls_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exact, "device_time", timers.latency)
    assert False in _holds(exact.separation(QUICK))


def test_intervals_cover_what_they_promise() -> None:
    assert set(_holds(theory.coverage(QUICK))) == {True}


def test_intervals_that_are_too_narrow_fall_short(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = stats.median_interval
    monkeypatch.setattr(stats, "median_interval", lambda values: honest(values, alpha=0.15))
    assert False in _holds(theory.coverage(QUICK))


def test_a_planted_ratio_lies_inside_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "count", lambda self, quick, thorough: 20)
    assert _holds(theory.planted_ratio(QUICK)) == [True]
    monkeypatch.setattr(theory, "PLANTED", 1.0)
    assert theory._simulated_speedup(0).value == pytest.approx(1.0, abs=0.02)


def _trial(low: float, high: float, *flags: str) -> Trial:
    return Trial(Estimate((low * high) ** 0.5, low, high), flags, 0.1)


def _outcomes(check: Any, trial: Trial, monkeypatch: pytest.MonkeyPatch) -> dict[str, bool | None]:
    monkeypatch.setattr(races, "race", lambda *args, **kwargs: trial)
    monkeypatch.setattr(races, "CONDITIONS", dict.fromkeys(corunners.CONDITIONS, nullcontext))
    calm = [replace(each, condition=nullcontext) for each in races.DISTURBANCES]
    monkeypatch.setattr(races, "DISTURBANCES", calm)
    return {f"{o.check}, {o.condition}": o.holds for o in check(QUICK)}


@pytest.mark.parametrize(
    ("trial", "falls_short"),
    [
        (_trial(0.995, 1.005), set()),
        (_trial(1.002, 1.005), {"interval excludes 1"}),
        (_trial(1.012, 1.015), {"interval excludes 1", "verdict beyond 1 %"}),
        (_trial(0.995, 1.005, "drift"), {"any flag"}),
    ],
    ids=["sound", "alarms", "verdicts", "flags"],
)
def test_false_alarms_fall_short(
    trial: Trial, falls_short: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _outcomes(races.equal_steps, trial, monkeypatch)
    short = {check.split(": ")[1].split(",")[0] for check, holds in found.items() if not holds}
    assert len(found) == 5
    assert short == falls_short


@pytest.mark.parametrize(
    ("trial", "sound"),
    [
        (_trial(0.97, 0.98, "contended"), True),
        (_trial(0.97, 1.01, "contended"), False),
        (_trial(1.01, 1.02, "contended"), False),
        (_trial(0.97, 0.98), False),
    ],
    ids=["seen", "missed", "wrong sign", "not flagged"],
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
        ("reported only", True)
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
    assert all(_outcomes(races.disturbances, trial, monkeypatch).values()) is sound


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_workloads_run_and_share_no_memory(name: str) -> None:
    one, other = WORKLOADS[name](), WORKLOADS[name]()
    one()
    addresses = [{tensor.data_ptr() for tensor in work.tensors} for work in (one, other)]
    assert not addresses[0] & addresses[1]


def test_a_race_sees_a_large_planted_slowdown() -> None:
    work, other = WORKLOADS["matmul"](), WORKLOADS["matmul"]()
    device = Cpu()
    longer, plain = planted(work, 50e-6, device), planted(other, 0.0, device)
    trial = race(longer, plain, device, adaptive(2.0), 0)
    assert (trial.sign, trial.verdict_sign) == (-1, -1)


def test_a_disturbance_reaches_the_second_block_of_each_round() -> None:
    """Half as much again in every second block: the order shows, the ratio does not."""
    each = Disturbance("a load", "order_effect", lambda round_, second: 0.5 * second)
    trial = races._disturbed_race(each, QUICK, 0)
    assert "order_effect" in trial.flags
    assert trial.ratio.low < 1.2
    assert trial.ratio.high > 0.8


def test_a_disturbance_follows_the_rounds() -> None:
    each = Disturbance("a ramp", "drift", lambda round_, second: round_ / FIXED.max_rounds)
    assert "drift" in races._disturbed_race(each, QUICK, 0).flags


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
    assert "stopped after 1 checks" in capsys.readouterr().out
    assert list((tmp_path / "selfcheck").glob("*.md"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--only", "speed"], "--only speed: allowed are delays"),
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
