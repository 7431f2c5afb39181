"""Equal steps under disturbances: the ratio must stay correct, and the flag must be raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

from modescope.bench.records.cases import Budget
from modescope.bench.timing import memory_layout
from modescope.bench.timing.paired import paired
from modescope.bench.tools.selfcheck.outcomes import CheckRow, Setting, most, percent
from modescope.bench.tools.selfcheck.races import AT_CONSTANT, DETECTED, LEAST, STEP, flag_row
from modescope.bench.tools.selfcheck.trials import FIXED, FIXED_ROUNDS, Trial, race, seeds, trial_of
from modescope.bench.tools.testbed import simulated
from modescope.bench.tools.testbed.corunners import CORES, Condition, co_runners
from modescope.bench.tools.testbed.workloads import built, lengthened, planted

OFF = 0.01
FALSE_FLAGS = 0.05
CALL_S, NOISE = 250e-6, 0.02  # of the simulated step; a round's median has half the noise


@dataclass(frozen=True)
class Disturbance:
    """A disturbance injected while equal steps are compared, and the flag that it should raise.

    `slowdown(round, second)` is the relative slowdown of calls in that round; `second` is true in
    the round's second block. If `witnessed`, an undisturbed third copy detects changes of the
    machine's own speed; this does not work for a load, which slows the third copy as well.
    """

    name: str
    flag: str
    slowdown: Callable[[int, bool], float] = lambda round_, second: 0.0
    condition: Condition = nullcontext
    budget: Budget = FIXED
    witnessed: bool = True


DISTURBANCES = (
    Disturbance("3 % ramp", "drift", lambda round_, second: 0.03 * round_ / FIXED_ROUNDS),
    Disturbance("2 % step", "drift", lambda round_, second: 0.02 * (round_ >= FIXED_ROUNDS // 2)),
    Disturbance("2 % more in every second block", "order_effect", lambda _, second: 0.02 * second),
    Disturbance(
        "co-runners busy 20 % of the time",  # on each core, as the scheduler uses free cores
        "contended",
        condition=lambda: co_runners(CORES, share=0.2),
        budget=replace(FIXED, warmup_min_s=0.5),  # contention is observed as long as in quick
        witnessed=False,
    ),
)


CALM = Disturbance("nothing", "")

TRIES = (2, 10)
"""Upper limit of trials, quick and thorough, as a multiple of the required number at constant
machine speed: changes of the machine's own speed can hide the disturbance or look like it."""


def disturbances(setting: Setting) -> Iterator[CheckRow]:
    """Equal steps under disturbances: ratio and flag."""
    n = setting.count(15, 100)
    for each in DISTURBANCES:
        with each.condition():
            every = list(_disturbed_races(each, setting, n))
        trials = [trial for trial in every if trial.constant_speed is not False]
        others = [trial for trial in every if trial.constant_speed is False]
        title = f"{each.name}{AT_CONSTANT if each.witnessed else ''}"
        yield _ratio_row(title, trials, others)
        row = flag_row(title, each.flag, trials, "injected")
        flagged = sum(each.flag in trial.flags for trial in others)
        yield replace(row, found=row.found + _at_changing_speed(flagged, others))


def _ratio_row(title: str, trials: list[Trial], others: list[Trial]) -> CheckRow:
    n, (right, worst) = len(trials), _right(trials)
    changing = _at_changing_speed(_right(others)[0], others)
    needed = n - most(n, 1 - DETECTED)
    return CheckRow(
        check=f"{title}: ratio within {percent(OFF)}",
        condition="injected",
        found=f"{right} of {n}, largest error {percent(worst)}{changing}",
        accepted=f"at least {needed}",
        holds=right >= needed if n >= LEAST else None,
        trials=n,
        value=worst,
    )


def _right(trials: list[Trial]) -> tuple[int, float | None]:
    """The number of ratios within OFF of 1, and the largest error."""
    errors = [abs(trial.ratio.value - 1) for trial in trials]
    return sum(error <= OFF for error in errors), max(errors, default=None)


def _at_changing_speed(count: int, others: list[Trial]) -> str:
    """The count among the trials in which the machine's speed changed."""
    return f"; at changing machine speed {count} of {len(others)}" if others else ""


def _disturbed_races(each: Disturbance, setting: Setting, n: int) -> Iterator[Trial]:
    """Trials until `n` had constant machine speed, or until the limit by TRIES."""
    left, tries = n, setting.count(*TRIES) if each.witnessed else 1
    for seed in seeds(setting, tries * n, each.name):
        trial = _disturbed_race(each, setting, seed)
        yield trial
        left -= trial.constant_speed is not False
        if not left:
            return


def simulated_disturbances(setting: Setting) -> Iterator[CheckRow]:
    """The disturbances, and none, on a simulated clock, which has no drift of its own."""
    n = setting.count(30, 300)
    for each in (CALM, *DISTURBANCES):
        if each.flag == "contended":
            continue
        title = f"{each.name}, simulated"
        trials = [_simulated_race(each, seed) for seed in setting.seeds(n, title)]
        if each is CALM:
            yield _calm_row(trials)
        else:
            yield flag_row(each.name, each.flag, trials, "simulated clock")


def _calm_row(trials: list[Trial]) -> CheckRow:
    n, flagged = len(trials), sum(bool(trial.flags) for trial in trials)
    allowed = most(n, FALSE_FLAGS)
    return CheckRow(
        check="no disturbance: any flag",
        condition="simulated clock",
        found=f"{flagged} of {n}",
        accepted=f"at most {allowed}",
        holds=flagged <= allowed,
        trials=n,
        value=flagged / n,
    )


class _Blocks:
    """Counts blocks by the redraw before each; a round has two blocks."""

    def __init__(self, each: Disturbance, elsewhere: memory_layout.Redraw) -> None:
        self._each, self._elsewhere, self._block = each, elsewhere, -1

    def redraw(self) -> object:
        self._block += 1
        return self._elsewhere()

    def slowdown(self) -> float:
        """The slowdown of the current call; 0 during warm-up."""
        if self._block < 0:
            return 0.0
        return self._each.slowdown(self._block // 2, self._block % 2 == 1)


def _disturbed_race(each: Disturbance, setting: Setting, seed: int) -> Trial:
    device = setting.device
    work, other = built(STEP, device), built(STEP, device)
    blocks = _Blocks(each, memory_layout.anew([*work.tensors, *other.tensors], device, seed))
    case, baseline = (lengthened(step, blocks.slowdown, device) for step in (work, other))
    witness = planted(built(STEP, device), 0.0, device) if each.witnessed else None
    return race(case, baseline, device, each.budget, seed, blocks.redraw, witness)


def _simulated_race(each: Disturbance, seed: int) -> Trial:
    device = simulated.SimulatedDevice(queues=False)
    blocks = _Blocks(each, lambda: None)
    noise = simulated.normal_noise(seed, NOISE)

    def scale() -> float:
        return noise() * (1 + blocks.slowdown())

    case, baseline = (simulated.step(device, (CALL_S, 0.0), scale=scale) for _ in range(2))
    expected_s = (CALL_S, CALL_S)
    timed = paired(case, baseline, device, each.budget, seed, expected_s, blocks.redraw)
    return trial_of(timed)
