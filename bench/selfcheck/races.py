"""Comparisons whose truth is known: equal steps, planted changes, planted disturbances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from bench import stats
from bench.devices import Hardware
from bench.records import Budget
from bench.selfcheck.outcomes import Outcome, Setting, most, percent
from bench.selfcheck.trials import Trial, adaptive, race, seeds
from bench.testbed.corunners import CONDITIONS
from bench.testbed.workloads import WORKLOADS, built, planted

FALSE_ALARMS = 0.05  # the level of the interval; whole ranks make it 3 to 4 % at 20 to 120 rounds
FALSE_VERDICTS = 0.005
FALSE_FLAGS = 0.05
SEEN = 0.95
LATE = 1.1  # a round that is expected to end in time may end a little later
AT_ITS_PACE = " while a third copy kept its pace"
LEAST = 15  # trials that a witness chose; of fewer nothing is decided
STEP = "pointwise"  # about 50 µs


def equal_steps(setting: Setting) -> Iterator[Outcome]:
    """Two separately built copies of one step: how often is a difference seen that is not there?"""
    device, each = setting.device, setting.count(15, 170)
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            found = [
                _equal_race(name, device, seed, witnessed=condition == "quiet")
                for seed in seeds(setting, each, f"equal steps, {condition}")
                for name in WORKLOADS
            ]
        yield from _equal_rows(found, condition)
        if condition == "quiet":
            yield _quiet_row([trial for trial in found if trial.kept_pace], len(found))
        yield _flags_row(found, condition)


def _equal_race(name: str, device: Hardware, seed: int, witnessed: bool) -> Trial:
    case, baseline, witness = (built(name, device) for _ in range(3))
    asked = witness if witnessed else None
    return race(case, baseline, device, adaptive(2.0), seed, witness=asked)


def _equal_rows(found: list[Trial], condition: str) -> Iterator[Outcome]:
    n = len(found)
    rates = {
        "interval excludes 1": (FALSE_ALARMS, sum(trial.sign != 0 for trial in found)),
        "verdict beyond 1 %": (FALSE_VERDICTS, sum(trial.verdict_sign != 0 for trial in found)),
    }
    for what, (share, wrong) in rates.items():
        yield Outcome(
            check=f"equal steps: {what}",
            condition=condition,
            found=f"{wrong} of {n} ({percent(wrong / n)})",
            accepted=f"at most {most(n, share)}",
            holds=wrong <= most(n, share),
            trials=n,
            value=wrong / n,
        )


def _quiet_row(quiet: list[Trial], played: int) -> Outcome:
    n, flagged = len(quiet), sum(bool(trial.flags) for trial in quiet)
    return Outcome(
        check=f"equal steps{AT_ITS_PACE}: any flag",
        condition="quiet",
        found=_counted(quiet) if n >= LEAST else f"it did so in {n} of {played}",
        accepted=f"at most {most(n, FALSE_FLAGS)}",
        holds=flagged <= most(n, FALSE_FLAGS) if n >= LEAST else None,
        trials=n,
        value=flagged / n if n else None,
    )


def _flags_row(found: list[Trial], condition: str) -> Outcome:
    return Outcome(
        check="equal steps: any flag, the machine's own drift and load included",
        condition=condition,
        found=_counted(found),
        accepted="told, not judged",
        holds=None,
        trials=len(found),
        value=sum(bool(trial.flags) for trial in found) / len(found),
    )


def _counted(found: list[Trial]) -> str:
    """How many have a flag, and which: `3 of 90 (3.3 %), drift 2, bimodal 1`."""
    flagged = sum(bool(trial.flags) for trial in found)
    counts = Counter(flag for trial in found for flag in trial.flags)
    share = f" ({percent(flagged / len(found))})" if found else ""
    told = [f"{flag} {times}" for flag, times in counts.most_common()]
    return ", ".join([f"{flagged} of {len(found)}{share}", *told])


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
                for seed in seeds(setting, n, title):
                    longer, other = (
                        planted(built(STEP, device), share, device) for share in (each.change, 0.0)
                    )
                    found.append(race(longer, other, device, each.budget, seed))
                yield from _planted_rows(each, found, condition)


def _planted_rows(each: Planted, found: list[Trial], condition: str) -> Iterator[Outcome]:
    n, wrong = len(found), sum(trial.sign > 0 for trial in found)
    within_s = LATE * each.budget.timed_max_s
    seen = sum(trial.sign < 0 and trial.timed_s <= within_s for trial in found)
    taken_s = median(trial.timed_s for trial in found)
    mdes = [mde for trial in found if (mde := stats.mde(trial.ratio)) is not None]
    detectable = median(mdes) if mdes else None
    needed = n - most(n, 1 - SEEN)
    yield Outcome(
        check=seen_check(each),
        condition=condition,
        found=f"{seen} of {n}, wrong sign {wrong}; "
        f"took {taken_s:.2g} s, detectable {percent(detectable)}",
        accepted=f"{needed}, wrong sign never" if each.required else "wrong sign never",
        holds=not wrong and (seen >= needed or not each.required),
        trials=n,
        value=detectable,
    )
    if condition == "a co-runner on each core" and each.required:
        yield flag_row(f"planted +{percent(each.change)}", "contended", found, condition)


def flag_row(what: str, flag: str, found: list[Trial], condition: str) -> Outcome:
    """Whether the flag is up in nearly all trials.

    Undecided with fewer than LEAST of them, and where the system does not count.
    """
    n, flagged = len(found), sum(flag in trial.flags for trial in found)
    blind = flag == "contended" and not any(trial.watched for trial in found)
    needed = n - most(n, 1 - SEEN)
    return Outcome(
        check=f"{what}: flagged {flag}",
        condition=condition,
        found="this system does not say what others do" if blind else f"{flagged} of {n}",
        accepted=f"{needed}",
        holds=None if blind or n < LEAST else flagged >= needed,
        trials=n,
        value=None if blind or not n else flagged / n,
    )
