"""Comparisons with a known result: equal steps, and steps with a planted change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from modescope.bench.records.cases import Budget
from modescope.bench.stats import estimates
from modescope.bench.tools.selfcheck.outcomes import CheckRow, Setting, most, percent
from modescope.bench.tools.selfcheck.trials import Trial, adaptive, race, seeds
from modescope.bench.tools.testbed.corunners import CONDITIONS
from modescope.bench.tools.testbed.workloads import WORKLOADS, built, planted

FALSE_ALARMS = 0.05  # level of the interval; 3 to 4 % at 20 to 120 rounds, as ranks are integers
FALSE_VERDICTS = 0.005
FALSE_FLAGS = 0.05
DETECTED = 0.95
CONDITIONAL = {"contended", "no_steady_state"}  # these depend on the machine, not on the ratio
LATE = 1.1  # factor on the time limit: the last round may end a little later
STEP = "pointwise"  # about 50 µs


def equal_steps(setting: Setting) -> Iterator[CheckRow]:
    """How often two separately built copies of one step are called different."""
    device, each = setting.device, setting.count(15, 170)
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            trials = [
                race(built(name, device), built(name, device), device, adaptive(2.0), seed)
                for seed in seeds(setting, each, f"equal steps, {condition}")
                for name in WORKLOADS
            ]
        yield from _equal_rows(trials, condition)
        yield _flags_row(trials, condition)


def _equal_rows(trials: list[Trial], condition: str) -> Iterator[CheckRow]:
    n = len(trials)
    rates = {
        "interval excludes 1": (FALSE_ALARMS, sum(trial.sign != 0 for trial in trials)),
        "verdict beyond 1 %": (FALSE_VERDICTS, sum(trial.verdict_sign != 0 for trial in trials)),
    }
    for what, (share, wrong) in rates.items():
        yield CheckRow(
            check=f"equal steps: {what}",
            condition=condition,
            found=f"{wrong} of {n} ({percent(wrong / n)})",
            accepted=f"at most {most(n, share)}",
            holds=wrong <= most(n, share),
            trials=n,
            value=wrong / n,
        )


def _flags_row(trials: list[Trial], condition: str) -> CheckRow:
    """Flags of the machine's own load are judged on another row (`flag_row`)."""
    own = [replace(each, flags=tuple(set(each.flags) - CONDITIONAL)) for each in trials]
    n, flagged = len(own), sum(bool(trial.flags) for trial in own)
    return CheckRow(
        check="equal steps: any flag of the ratio",
        condition=condition,
        found=_counted(own),
        accepted=f"at most {most(n, FALSE_FLAGS)}",
        holds=flagged <= most(n, FALSE_FLAGS),
        trials=n,
        value=flagged / n,
    )


def _counted(trials: list[Trial]) -> str:
    """The number of flagged trials, and of each flag: `3 of 90 (3.3 %), drift 2, bimodal 1`."""
    flagged = sum(bool(trial.flags) for trial in trials)
    counts = Counter(flag for trial in trials for flag in trial.flags)
    share = f" ({percent(flagged / len(trials))})" if trials else ""
    by_flag = [f"{flag} {times}" for flag, times in counts.most_common()]
    return ", ".join([f"{flagged} of {len(trials)}{share}", *by_flag])


@dataclass(frozen=True)
class Planted:
    """A planted slowdown and the budget within which it should be detected."""

    change: float
    budget: Budget
    required: bool = True


CHANGES = (
    Planted(0.05, adaptive(0.1, half_width=0.01)),
    Planted(0.02, adaptive(0.25)),
    Planted(0.01, adaptive(1.0, half_width=0.0025, max_rounds=400)),
    Planted(0.005, adaptive(5.0, half_width=0.00125, max_rounds=1600), required=False),
)


def detection_check(each: Planted) -> str:
    """Name of the row on the detection of a planted change."""
    return f"planted +{percent(each.change)} within {each.budget.timed_max_s:g} s: detected"


def planted_changes(setting: Setting) -> Iterator[CheckRow]:
    """A step of about 50 µs compared with one that takes longer by a planted share."""
    device = setting.device
    for condition in CONDITIONS:
        with CONDITIONS[condition]():
            for each in CHANGES:
                n = setting.count(15, 100) if each.required else setting.count(0, 30)
                if not n:
                    continue
                title = f"planted +{percent(each.change)}, {condition}"
                trials = []
                for seed in seeds(setting, n, title):
                    longer, other = (
                        planted(built(STEP, device), share, device) for share in (each.change, 0.0)
                    )
                    trials.append(race(longer, other, device, each.budget, seed))
                yield from _planted_rows(each, trials, condition)


def _planted_rows(each: Planted, trials: list[Trial], condition: str) -> Iterator[CheckRow]:
    n, wrong = len(trials), sum(trial.sign > 0 for trial in trials)
    within_s = LATE * each.budget.timed_max_s
    detected = sum(trial.sign < 0 and trial.timed_s <= within_s for trial in trials)
    taken_s = median(trial.timed_s for trial in trials)
    mdes = [mde for trial in trials if (mde := estimates.mde(trial.ratio)) is not None]
    detectable = median(mdes) if mdes else None
    needed = n - most(n, 1 - DETECTED)
    yield CheckRow(
        check=detection_check(each),
        condition=condition,
        found=f"{detected} of {n}, wrong sign {wrong}; "
        f"took {taken_s:.2g} s, detectable {percent(detectable)}",
        accepted=f"{f'at least {needed}, ' if each.required else ''}wrong sign 0",
        holds=not wrong and (detected >= needed or not each.required),
        trials=n,
        value=detectable,
    )
    if condition == "a co-runner on each core" and each.required:
        yield flag_row(f"planted +{percent(each.change)}", "contended", trials, condition)


def flag_row(what: str, flag: str, trials: list[Trial], condition: str) -> CheckRow:
    """Whether nearly all trials have the flag.

    Undecided if the system does not report the load of others.
    """
    n, flagged = len(trials), sum(flag in trial.flags for trial in trials)
    blind = flag == "contended" and not any(trial.watched for trial in trials)
    needed = n - most(n, 1 - DETECTED)
    return CheckRow(
        check=f"{what}: flagged {flag}",
        condition=condition,
        found="this system does not report others' load" if blind else f"{flagged} of {n}",
        accepted=f"at least {needed}",
        holds=None if blind else flagged >= needed,
        trials=n,
        value=None if blind or not n else flagged / n,
    )
