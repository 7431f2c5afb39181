"""Equal steps under disturbances: the ratio must stay correct, and the flag must be raised."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from modescope.bench.devices.devices import Step
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.timing import memory_layout
from modescope.bench.timing.paired import paired
from modescope.bench.tools.selfcheck.outcomes import CheckRow, Setting, most, percent
from modescope.bench.tools.selfcheck.races import DETECTED, STEP, flag_row
from modescope.bench.tools.selfcheck.trials import FIXED, FIXED_ROUNDS, Trial, race, seeds, trial_of
from modescope.bench.tools.testbed import simulated
from modescope.bench.tools.testbed.corunners import CORES, Condition, co_runners
from modescope.bench.tools.testbed.workloads import built, lengthened

OFF = 0.01
FALSE_FLAGS = 0.05
RESOLVED = 0.02 / 6
"""Half-width of the interval of a comparison that is disturbed, a sixth of the planted 2 %.

How small a disturbance shows in n rounds depends on their noise, so one of a fixed size needs more
rounds where the noise is larger.
"""
SURE = 5.8
"""The z of Kendall's tau for a planted drift: 2.8 for DRIFT_P, and 3 more, so that chance hides it
in one of a thousand comparisons."""
SHUFFLES = 20  # of the calm rounds, whose own order is chance
MOST_ROUNDS = 1000  # with more, a noisy machine would take minutes
CALL_S, NOISE = 250e-6, 0.02  # of the simulated step; a round's median has half the noise


@dataclass(frozen=True)
class Disturbance:
    """A disturbance injected while equal steps are compared.

    `slowdown(played, second)` is the relative slowdown of calls in a round before which that share
    of the rounds was played; `second` is true in the round's second block. It slows both steps, and
    the ratio must stay right; with `case_alone` it slows one, and the flag must say that the ratio
    changes. `flag`: what it should raise; None where nothing that is reported is wrong.
    """

    name: str
    flag: str | None
    slowdown: Callable[[float, bool], float] = lambda played, second: 0.0
    condition: Condition = nullcontext
    warmup_min_s: float = FIXED.warmup_min_s
    case_alone: bool = False


def _ramp(played: float, second: bool) -> float:
    return 0.03 * played


def _step(played: float, second: bool) -> float:
    return 0.02 * (played >= 0.5)


DISTURBANCES = (
    Disturbance("3 % ramp", None, _ramp),
    Disturbance("2 % step", None, _step),
    Disturbance("3 % ramp of the case alone", "drift", _ramp, case_alone=True),
    Disturbance("2 % step of the case alone", "drift", _step, case_alone=True),
    Disturbance("2 % more in every second block", "order_effect", lambda _, second: 0.02 * second),
    Disturbance(
        "co-runners busy 20 % of the time",  # on each core, as the scheduler uses free cores
        "contended",
        condition=lambda: co_runners(CORES, share=0.2),
        warmup_min_s=0.5,  # contention is observed as long as in quick
    ),
)

CALM = Disturbance("no disturbance", None)


def disturbances(setting: Setting) -> Iterator[CheckRow]:
    """Equal steps under disturbances: ratio and flag."""
    n = setting.count(15, 100)
    for each in DISTURBANCES:
        with each.condition():
            trials = [_disturbed_race(each, setting, seed) for seed in seeds(setting, n, each.name)]
        if not each.case_alone:
            yield _ratio_row(each.name, trials)
        if each.flag:
            yield flag_row(each.name, each.flag, trials, "injected")


def _ratio_row(title: str, trials: list[Trial]) -> CheckRow:
    errors = [abs(trial.ratio.value - 1) for trial in trials]
    n, right = len(trials), sum(error <= OFF for error in errors)
    needed = n - most(n, 1 - DETECTED)
    return CheckRow(
        check=f"{title}: ratio within {percent(OFF)}",
        condition="injected",
        found=f"{right} of {n}, largest error {percent(max(errors))}",
        accepted=f"at least {needed}",
        holds=right >= needed,
        trials=n,
        value=max(errors),
    )


def simulated_disturbances(setting: Setting) -> Iterator[CheckRow]:
    """The disturbances, and none, on a simulated clock, which has no drift of its own.

    Without those that need a condition of the machine, of which a simulated clock sees nothing.
    """
    n = setting.count(30, 300)
    for each in (CALM, *DISTURBANCES):
        if each.condition is not nullcontext:
            continue
        trials = [_simulated_race(each, seed) for seed in setting.seeds(n, each.name)]
        if each.flag is None:
            yield _calm_row(each.name, trials)
        else:
            yield flag_row(each.name, each.flag, trials, "simulated clock")


def _calm_row(name: str, trials: list[Trial]) -> CheckRow:
    n, flagged = len(trials), sum(bool(trial.flags) for trial in trials)
    allowed = most(n, FALSE_FLAGS)
    return CheckRow(
        check=f"{name}: any flag",
        condition="simulated clock",
        found=f"{flagged} of {n}",
        accepted=f"at most {allowed}",
        holds=flagged <= allowed,
        trials=n,
        value=flagged / n,
    )


class _Blocks:
    """Counts blocks by the redraw before each; a round has two blocks."""

    def __init__(self, each: Disturbance, rounds: int, elsewhere: memory_layout.Redraw) -> None:
        self._each, self._rounds, self._elsewhere, self._block = each, rounds, elsewhere, -1

    def redraw(self) -> object:
        self._block += 1
        return self._elsewhere()

    def slowdown(self) -> float:
        """The slowdown of the current call; 0 during warm-up."""
        if self._block < 0:
            return 0.0
        played = self._block // 2 / self._rounds
        return self._each.slowdown(played, self._block % 2 == 1)


def _disturbed_race(each: Disturbance, setting: Setting, seed: int) -> Trial:
    """Equal steps under a disturbance, in as many rounds as show it (RESOLVED, SURE)."""
    calm = _race(replace(each, slowdown=CALM.slowdown), setting, seed, FIXED_ROUNDS)
    rounds = estimates.rounds_for(calm.ratio, FIXED_ROUNDS, RESOLVED, FIXED_ROUNDS, MOST_ROUNDS)
    if each.flag == "drift":
        rounds = max(rounds, _rounds_of_drift(each, calm.log_ratios, seed))
    return _race(each, setting, seed, rounds + rounds % 2)  # whole pairs of mirrored rounds


def _rounds_of_drift(
    each: Disturbance, log_ratios: Sequence[float] | NDArray[np.float64], seed: int
) -> int:
    """The rounds in which the planted drift has a z of SURE, at most MOST_ROUNDS.

    It is added to the rounds of a calm comparison in random order, since what tau finds depends on
    more of their distribution than the interval of a median does. tau has z = 1.5 tau sqrt(n).
    """
    played = np.arange(len(log_ratios)) / len(log_ratios)
    planted = np.array([math.log1p(each.slowdown(share, False)) for share in played])
    draw = np.random.default_rng(seed)
    effects = [
        diagnostics.drift(draw.permutation(log_ratios) - planted) for _ in range(SHUFFLES)
    ]  # fmt: skip
    tau = -mean(effect.statistic for effect in effects if effect is not None)
    return math.ceil(min(MOST_ROUNDS, (SURE / 1.5 / tau) ** 2)) if tau > 0 else MOST_ROUNDS


def _race(each: Disturbance, setting: Setting, seed: int, rounds: int) -> Trial:
    device = setting.device
    work, other = built(STEP, device), built(STEP, device)
    elsewhere = memory_layout.anew([*work.tensors, *other.tensors], device, seed)
    blocks = _Blocks(each, rounds, elsewhere)
    case = lengthened(work, blocks.slowdown, device)
    baseline = lengthened(other, _nothing if each.case_alone else blocks.slowdown, device)
    budget = replace(
        FIXED, warmup_min_s=each.warmup_min_s, min_rounds=rounds, max_rounds=rounds
    )  # fmt: skip
    return race(case, baseline, device, budget, seed, blocks.redraw)


def _nothing() -> float:
    return 0.0


def _simulated_race(each: Disturbance, seed: int) -> Trial:
    device = simulated.SimulatedDevice(queues=False)
    blocks = _Blocks(each, FIXED_ROUNDS, lambda: None)
    noise = simulated.normal_noise(seed, NOISE)

    def scaled(slowdown: Callable[[], float]) -> Step:
        return simulated.step(device, (CALL_S, 0.0), scale=lambda: noise() * (1 + slowdown()))

    case = scaled(blocks.slowdown)
    baseline = scaled(_nothing if each.case_alone else blocks.slowdown)
    expected_s = (CALL_S, CALL_S)
    timed = paired(case, baseline, device, FIXED, seed, expected_s, blocks.redraw)
    return trial_of(timed)
