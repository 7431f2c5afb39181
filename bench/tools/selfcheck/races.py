"""Checks comparisons whose result is known: equal steps, planted slowdowns, disturbances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import median

from modescope.bench.devices.devices import Device
from modescope.bench.records.plans import Budget
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Estimate, Verdict
from modescope.bench.timing import contention, memory_layout
from modescope.bench.timing.comparison import compare, flags
from modescope.bench.tools.selfcheck.check import (
    CheckRow,
    Setting,
    limit_wrong,
    percent,
    require_right,
)
from modescope.bench.tools.selfcheck.workloads import (
    CONDITIONS,
    CORES,
    WORKLOADS,
    Condition,
    Workload,
    build,
    co_runners,
    lengthen,
    plant,
)

FALSE_ALARMS = 0.05  # level of the interval; 3 to 4 % at 20 to 120 rounds, as ranks are integers
FALSE_VERDICTS = 0.005
FALSE_FLAGS = 0.05
CONDITIONAL = {"contended", "no_steady_state"}  # these depend on the machine, not on the ratio
LATE = 1.1  # factor on the time limit: the last round may end a little later
STEP = "pointwise"  # about 50 µs
BUSY = "co-runners busy 20 % of the time"  # on each core, as the scheduler uses free cores
OFF = 0.01  # largest error of a ratio that counts as right


def adaptive_budget(timed_max_s: float, half_width: float = 0.005, max_rounds: int = 120) -> Budget:
    """Returns a time budget whose pilot rounds set the number of rounds, 20 to `max_rounds`.

    `half_width` is the relative half-width of the speedup's interval to aim at, by default that of
    budget=quick. `timed_max_s` is the longest time for all rounds.
    """
    return Budget(
        name="selfcheck",
        rank=0,
        warmup_min_s=0.05,  # these steps settle at once: nothing compiles and nothing is large
        warmup_max_s=1.0,
        block_s=0.001,
        pilot_rounds=12,
        min_rounds=20,
        max_rounds=max_rounds,
        half_width=half_width,
        timed_max_s=timed_max_s,
        clock_rounds=1,
    )


# Always as many rounds as budget=quick plays where the noise is large, so that a disturbance can
# follow their number; warmed up as long as in quick, so that contention is observed as long.
FIXED = replace(adaptive_budget(60.0, half_width=1e-9), min_rounds=120, warmup_min_s=0.5)


@dataclass(frozen=True)
class RaceResult:
    """The result of comparing two steps once."""

    speedup: Estimate  # of the case over the baseline
    flags: tuple[str, ...]
    timed_s: float
    load_known: bool  # whether the system reports the load of other processes

    @property
    def sign(self) -> int:
        """1 if the interval is above 1 (faster), -1 if below, 0 if it contains 1 or is unknown."""
        if self.speedup.low is None or self.speedup.high is None:
            return 0
        return (self.speedup.low > 1) - (self.speedup.high < 1)


def race(
    case: Workload,
    baseline: Workload,
    device: Device,
    budget: Budget,
    seed: int,
    redraw: memory_layout.Redraw | None = None,
) -> RaceResult:
    """Compares `case` with `baseline`: warm-up, then paired rounds.

    `redraw` is called before each block. By default it gives the tensors new places in memory.
    """
    before = contention.read()
    anew = redraw or memory_layout.make_redraw([*case.tensors, *baseline.tensors], device, seed)
    compared = compare(case, baseline, device, budget, seed, anew)
    load = contention.load_between(before, contention.read())
    load_known = load.cpu_wait_s is not None or load.others_cpu_s is not None
    assert compared.speedup is not None
    return RaceResult(compared.speedup, flags(compared, load), compared.rounds.timed_s, load_known)


def equal_steps(setting: Setting) -> Iterator[CheckRow]:
    """Checks how often two equal steps, built separately, are found to differ."""
    device, seeds = setting.device, setting.count(15, 170)
    for condition in ("quiet", "one co-runner"):
        with CONDITIONS[condition]():
            trials = [
                race(build(name, device), build(name, device), device, adaptive_budget(2.0), seed)
                for seed in setting.seeds(seeds, f"equal steps, {condition}")
                for name in WORKLOADS
            ]
        n = len(trials)
        alarms = sum(trial.sign != 0 for trial in trials)
        verdicts = sum(
            estimates.verdict(t.speedup) in (Verdict.FASTER, Verdict.SLOWER) for t in trials
        )
        raised = [set(trial.flags) - CONDITIONAL for trial in trials]
        by_flag = Counter(flag for up in raised for flag in up).most_common()
        detail = "".join(f", {flag} {times}" for flag, times in by_flag)
        for what, wrong, share, more in (
            ("interval excludes 1", alarms, FALSE_ALARMS, ""),
            ("verdict beyond 1 %", verdicts, FALSE_VERDICTS, ""),
            ("any flag of the ratio", sum(map(bool, raised)), FALSE_FLAGS, detail),
        ):
            yield limit_wrong(f"equal steps: {what}", condition, wrong, n, share, more)


@dataclass(frozen=True)
class PlantedSlowdown:
    """A planted slowdown that should be detected."""

    share: float  # by which a call takes longer
    budget: Budget  # within which it should be detected
    trials: tuple[int, int] = 15, 100  # quick, thorough


SLOWDOWNS = (
    PlantedSlowdown(0.05, adaptive_budget(0.1, half_width=0.01)),
    PlantedSlowdown(0.02, adaptive_budget(0.25)),
    PlantedSlowdown(0.01, adaptive_budget(1.0, half_width=0.0025, max_rounds=400)),
    PlantedSlowdown(
        0.005, adaptive_budget(5.0, half_width=0.00125, max_rounds=1600), trials=(0, 30)
    ),
)


def planted_changes(setting: Setting) -> Iterator[CheckRow]:
    """Checks how often a known slowdown of a step of about 50 µs is detected."""
    device = setting.device
    for condition in CONDITIONS:
        with CONDITIONS[condition]():
            for slowdown in SLOWDOWNS:
                title, n = f"planted +{percent(slowdown.share)}", setting.count(*slowdown.trials)
                trials = []
                for seed in setting.seeds(n, f"{title}, {condition}"):
                    longer, plain = (
                        plant(build(STEP, device), share, device) for share in (slowdown.share, 0.0)
                    )
                    trials.append(race(longer, plain, device, slowdown.budget, seed))
                if trials:
                    yield _detection_row(title, slowdown.budget.timed_max_s, trials, condition)
                if trials and condition == "a co-runner on each core":
                    yield _contended_row(title, trials, condition)


def _detection_row(
    title: str, timed_max_s: float, trials: list[RaceResult], condition: str
) -> CheckRow:
    wrong = sum(trial.sign > 0 for trial in trials)
    detected = sum(trial.sign < 0 and trial.timed_s <= LATE * timed_max_s for trial in trials)
    detail = f", wrong sign {wrong}; took {median(trial.timed_s for trial in trials):.2g} s"
    mdes = [mde for trial in trials if (mde := estimates.mde(trial.speedup)) is not None]
    if mdes:
        detail += f", detectable {percent(median(mdes))}"
    check = f"{title} within {timed_max_s:g} s: detected"
    row = require_right(check, condition, detected, len(trials), detail)
    return replace(row, accepted=f"{row.accepted}, wrong sign 0", holds=row.holds and not wrong)


def _contended_row(what: str, trials: list[RaceResult], condition: str) -> CheckRow:
    check = f"{what}: flagged contended"
    if not any(trial.load_known for trial in trials):
        return CheckRow(check, condition, "this system does not report others' load")
    flagged = sum("contended" in trial.flags for trial in trials)
    return require_right(check, condition, flagged, len(trials))


Slowdown = Callable[[float, bool], float]
"""Returns the relative slowdown of the calls in a block. Its arguments are the share of the rounds
that are over, and whether the block is the second one of its round."""

# name -> slowdown of both steps, what else runs
DISTURBANCES: dict[str, tuple[Slowdown, Condition]] = {
    "3 % ramp": (lambda played, second: 0.03 * played, nullcontext),
    "2 % step": (lambda played, second: 0.02 * (played >= 0.5), nullcontext),
    "2 % more in every second block": (lambda played, second: 0.02 * second, nullcontext),
    BUSY: (lambda played, second: 0.0, lambda: co_runners(CORES, share=0.2)),
}


def disturbances(setting: Setting) -> Iterator[CheckRow]:
    """Checks that the ratio of equal steps stays right while both are disturbed in the same way."""
    n = setting.count(15, 100)
    for name, (slowdown, condition) in DISTURBANCES.items():
        with condition():
            trials = [disturbed_race(slowdown, setting, seed) for seed in setting.seeds(n, name)]
        errors = [abs(trial.speedup.value - 1) for trial in trials]
        right, largest = sum(error <= OFF for error in errors), max(errors)
        check, detail = f"{name}: ratio within 1 %", f", largest error {percent(largest)}"
        yield require_right(check, "injected", right, n, detail)
        if name == BUSY:
            yield _contended_row(name, trials, "injected")


def disturbed_race(slowdown: Slowdown, setting: Setting, seed: int) -> RaceResult:
    """Compares two equal steps while `slowdown` lengthens the calls of both.

    The budget is FIXED: the number of rounds does not depend on the times.
    """
    device, block = setting.device, -1  # a round has two blocks, with a redraw before each
    work, other = build(STEP, device), build(STEP, device)
    anew = memory_layout.make_redraw([*work.tensors, *other.tensors], device, seed)

    def redraw() -> object:
        nonlocal block
        block += 1
        return anew()

    def share() -> float:
        warm_up = block < 0
        return 0.0 if warm_up else slowdown(block // 2 / FIXED.max_rounds, block % 2 == 1)

    case, baseline = (lengthen(workload, share, device) for workload in (work, other))
    return race(case, baseline, device, FIXED, seed, redraw)
