"""Comparisons whose truth is known: equal steps, planted changes, planted disturbances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import median

from tqdm import tqdm

from bench import placement, stats
from bench.devices import Device
from bench.records import Budget
from bench.selfcheck.outcomes import Outcome, Setting, most, percent
from bench.selfcheck.trials import FIXED, FIXED_ROUNDS, Trial, adaptive, race
from bench.testbed.corunners import CONDITIONS, Condition, co_runners
from bench.testbed.workloads import WORKLOADS, Workload, built, disturbed, planted
from bench.timers import latency

FALSE_ALARMS = 0.069  # nominal 5 %, and 2.75 standard deviations of a count among 1,000
FALSE_VERDICTS = 0.005
FALSE_FLAGS = 0.05
SEEN = 0.95
OFF = 0.01
WARM_CALLS = 200
STEP = "pointwise"  # about 50 µs


def equal_steps(setting: Setting) -> Iterator[Outcome]:
    """Two separately built copies of one step: how often is a difference seen that is not there?"""
    device, each = setting.device, setting.count(15, 170)
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            found = [
                race(built(name, device), built(name, device), device, adaptive(2.0), seed)
                for seed in _counted(each, f"equal steps, {condition}")
                for name in WORKLOADS
            ]
        yield from _equal_rows(found, condition)


def _equal_rows(found: list[Trial], condition: str) -> Iterator[Outcome]:
    n = len(found)
    rates = {
        "interval excludes 1": (FALSE_ALARMS, sum(trial.sign != 0 for trial in found)),
        "verdict beyond 1 %": (FALSE_VERDICTS, sum(trial.verdict_sign != 0 for trial in found)),
    }
    if condition == "quiet":
        rates["any flag"] = (FALSE_FLAGS, sum(bool(trial.flags) for trial in found))
    for what, (share, wrong) in rates.items():
        yield Outcome(
            check=f"equal steps: {what}",
            condition=condition,
            found=f"{wrong} of {n} ({percent(wrong / n)}){_named(found) if 'flag' in what else ''}",
            accepted=f"at most {most(n, share)} ({percent(share)} of many)",
            holds=wrong <= most(n, share),
            trials=n,
            value=wrong / n,
        )


def _named(found: list[Trial]) -> str:
    raised = [flag for trial in found for flag in trial.flags]
    counts = sorted(((raised.count(flag), flag) for flag in set(raised)), reverse=True)
    return "".join(f", {flag} {times}" for times, flag in counts)


@dataclass(frozen=True)
class Planted:
    """A planted slowdown and the time in which it should be seen."""

    change: float
    budget: Budget
    required: bool = True


CHANGES = (
    Planted(0.05, adaptive(0.1, half_width=0.01)),
    Planted(0.02, adaptive(0.25)),
    Planted(0.01, adaptive(1.0, half_width=0.0025, max_rounds=400)),
    Planted(0.005, adaptive(5.0, half_width=0.00125, max_rounds=1600), required=False),
)


def seen_check(each: Planted) -> str:
    """What the row is called that says whether a planted change was seen."""
    return f"planted +{percent(each.change)} within {each.budget.timed_max_s:g} s: seen"


def planted_changes(setting: Setting) -> Iterator[Outcome]:
    """A step of about 50 µs against one that takes longer by a planted share: is it seen?"""
    device = setting.device
    for condition in CONDITIONS:
        with CONDITIONS[condition]():
            for each in CHANGES:
                n = setting.count(15, 100) if each.required else setting.count(0, 30)
                if not n:
                    continue
                title = f"planted +{percent(each.change)}, {condition}"
                found = []
                for seed in _counted(n, title):
                    work, other = built(STEP, device), planted(built(STEP, device), 0.0, device)
                    longer = planted(work, each.change * _call_s(other, device), device)
                    found.append(race(longer, other, device, each.budget, seed))
                yield from _planted_rows(each, found, condition)


def _planted_rows(each: Planted, found: list[Trial], condition: str) -> Iterator[Outcome]:
    n = len(found)
    seen, wrong = sum(trial.sign < 0 for trial in found), sum(trial.sign > 0 for trial in found)
    mdes = [mde for trial in found if (mde := stats.mde(trial.ratio)) is not None]
    detectable = median(mdes) if mdes else None
    yield Outcome(
        check=seen_check(each),
        condition=condition,
        found=f"{seen} of {n}, wrong sign {wrong}; detectable {percent(detectable)}",
        accepted=f"{percent(SEEN)}, wrong sign never" if each.required else "reported only",
        holds=(seen >= SEEN * n and not wrong) if each.required else not wrong,
        trials=n,
        value=detectable,
    )
    if condition == "a co-runner on each core" and each.required:
        flagged = sum("contended" in trial.flags for trial in found)
        yield Outcome(
            check=f"planted +{percent(each.change)}: flagged contended",
            condition=condition,
            found=f"{flagged} of {n}",
            accepted=percent(SEEN),
            holds=flagged >= SEEN * n,
            trials=n,
            value=flagged / n,
        )


@dataclass(frozen=True)
class Disturbance:
    """Something that goes wrong while equal steps are compared, and the flag that should say so.

    `slowdown(round, second)` is the share by which calls of that round take longer; `second` says
    whether the call belongs to the round's second block.
    """

    name: str
    flag: str
    slowdown: Callable[[int, bool], float] = lambda round_, second: 0.0
    condition: Condition = nullcontext
    budget: Budget = FIXED


DISTURBANCES = (
    Disturbance("3 % ramp", "drift", lambda round_, second: 0.03 * round_ / FIXED_ROUNDS),
    Disturbance("2 % step", "drift", lambda round_, second: 0.02 * (round_ >= FIXED_ROUNDS // 2)),
    Disturbance("load in every second block", "order_effect", lambda round_, second: 0.03 * second),
    Disturbance(
        "co-runner busy 20 % of the time",
        "contended",
        condition=lambda: co_runners(1, share=0.2),
        budget=replace(FIXED, warmup_min_s=0.5),  # as budget=quick watches it
    ),
)


def disturbances(setting: Setting) -> Iterator[Outcome]:
    """Equal steps while the machine misbehaves: is the ratio right, and is the reader told?"""
    n = setting.count(20, 100)
    for each in DISTURBANCES:
        with each.condition():
            found = [_disturbed_race(each, setting, seed) for seed in _counted(n, each.name)]
        off = max(abs(trial.ratio.value - 1) for trial in found)
        flagged = sum(each.flag in trial.flags for trial in found)
        yield Outcome(
            check=f"{each.name}: ratio off",
            condition="injected",
            found=f"at most {percent(off)}",
            accepted=f"at most {percent(OFF)}",
            holds=off <= OFF,
            trials=n,
            value=off,
        )
        yield Outcome(
            check=f"{each.name}: flagged {each.flag}",
            condition="injected",
            found=f"{flagged} of {n}",
            accepted=percent(SEEN),
            holds=flagged >= SEEN * n,
            trials=n,
            value=flagged / n,
        )


def _disturbed_race(each: Disturbance, setting: Setting, seed: int) -> Trial:
    """The disturbance counts blocks by the redraws before them; two of them are a round."""
    device = setting.device
    work, other = built(STEP, device), built(STEP, device)
    alone_s = _call_s(planted(work, 0.0, device), device)
    elsewhere = placement.anew([*work.tensors, *other.tensors], device, seed)
    block = -1

    def redraw() -> object:
        nonlocal block
        block += 1
        return elsewhere()

    def extra_s() -> float:
        return alone_s * each.slowdown(max(0, block) // 2, block % 2 == 1)

    return race(
        disturbed(work, extra_s, device),
        disturbed(other, extra_s, device),
        device,
        each.budget,
        seed,
        redraw,
    )


def _call_s(step: Workload, device: Device) -> float:
    call_s = latency(step, device, WARM_CALLS).median_s
    assert call_s is not None
    return call_s


def _counted(n: int, title: str) -> Iterator[int]:
    """Seeds 0 ... n - 1 with a bar on a terminal."""
    yield from tqdm(range(n), desc=title, leave=False, disable=None)
