"""Equal steps while the machine misbehaves: is the ratio still right, and is the reader told?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

from bench import diagnostics, placement, rounds, stats
from bench.records import Budget
from bench.selfcheck.outcomes import Outcome, Setting, most, percent
from bench.selfcheck.races import AT_ITS_PACE, LEAST, SEEN, STEP, flag_row
from bench.selfcheck.trials import FIXED, FIXED_ROUNDS, Trial, race, seeds
from bench.testbed import simulated
from bench.testbed.corunners import CORES, Condition, co_runners
from bench.testbed.workloads import built, lengthened, planted

OFF = 0.01
FALSE_FLAGS = 0.05
CALL_S, NOISE = 250e-6, 0.02  # of the simulated step; the median of a round has half the noise


@dataclass(frozen=True)
class Disturbance:
    """Something that goes wrong while equal steps are compared, and the flag that should say so.

    `slowdown(round, second)` is the share by which calls of that round take longer; `second` says
    whether the call belongs to the round's second block. Where `witnessed`, a third copy tells what
    is injected from what the machine does by itself; a load of the machine it would suffer as well.
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
        "co-runners busy 20 % of the time",  # on each core, or the scheduler would find a free one
        "contended",
        condition=lambda: co_runners(CORES, share=0.2),
        budget=replace(FIXED, warmup_min_s=0.5),  # as budget=quick watches it
        witnessed=False,
    ),
)


CALM = Disturbance("nothing", "")

TRIES = (2, 10)
"""Times as many trials as are asked for, quick and thorough, until so many fell into moments when
the machine kept its pace: its own changes hide what is injected, or stand in for it."""


def disturbances(setting: Setting) -> Iterator[Outcome]:
    """Equal steps while the machine misbehaves: is the ratio right, and is the reader told?"""
    n = setting.count(15, 100)
    for each in DISTURBANCES:
        with each.condition():
            played = list(_disturbed_races(each, setting, n))
        found = [trial for trial in played if trial.kept_pace is not False]
        others = [trial for trial in played if trial.kept_pace is False]
        title = f"{each.name}{AT_ITS_PACE if each.witnessed else ''}"
        yield _ratio_row(title, found, others)
        row = flag_row(title, each.flag, found, "injected")
        flagged = sum(each.flag in trial.flags for trial in others)
        yield replace(row, found=row.found + _besides(flagged, others))


def _ratio_row(title: str, found: list[Trial], others: list[Trial]) -> Outcome:
    n, (near, worst) = len(found), _near(found)
    needed = n - most(n, 1 - SEEN)
    return Outcome(
        check=f"{title}: ratio within {percent(OFF)}",
        condition="injected",
        found=f"{near} of {n}, off by at most {percent(worst)}{_besides(_near(others)[0], others)}",
        accepted=f"{needed}",
        holds=near >= needed if n >= LEAST else None,
        trials=n,
        value=worst,
    )


def _near(trials: list[Trial]) -> tuple[int, float | None]:
    """How many ratios are within OFF of 1, and how far the worst is away."""
    offs = [abs(trial.ratio.value - 1) for trial in trials]
    return sum(off <= OFF for off in offs), max(offs, default=None)


def _besides(count: int, others: list[Trial]) -> str:
    """The same of the trials in which the machine did not keep its pace."""
    return f"; besides {count} of {len(others)} while it did not" if others else ""


def _disturbed_races(each: Disturbance, setting: Setting, n: int) -> Iterator[Trial]:
    """Until the machine kept its pace in `n` of them, or TRIES are done."""
    left, tries = n, setting.count(*TRIES) if each.witnessed else 1
    for seed in seeds(setting, tries * n, each.name):
        trial = _disturbed_race(each, setting, seed)
        yield trial
        left -= trial.kept_pace is not False
        if not left:
            return


def simulated_disturbances(setting: Setting) -> Iterator[Outcome]:
    """The same on a simulated clock that has no drift of its own, and nothing at all."""
    n = setting.count(30, 300)
    for each in (CALM, *DISTURBANCES):
        if each.flag == "contended":
            continue
        title = f"{each.name}, simulated"
        found = [_simulated_race(each, seed) for seed in setting.seeds(n, title)]
        if each is CALM:
            yield _calm_row(found)
        else:
            yield flag_row(each.name, each.flag, found, "simulated clock")


def _calm_row(found: list[Trial]) -> Outcome:
    n, flagged = len(found), sum(bool(trial.flags) for trial in found)
    allowed = most(n, FALSE_FLAGS)
    return Outcome(
        check="nothing: any flag",
        condition="simulated clock",
        found=f"{flagged} of {n}",
        accepted=f"at most {allowed}",
        holds=flagged <= allowed,
        trials=n,
        value=flagged / n,
    )


class _Blocks:
    """Counts blocks by the redraws before them; two of them are a round."""

    def __init__(self, each: Disturbance, elsewhere: placement.Redraw) -> None:
        self._each, self._elsewhere, self._block = each, elsewhere, -1

    def redraw(self) -> object:
        self._block += 1
        return self._elsewhere()

    def slowdown(self) -> float:
        """Of the call that is made now; none during warm-up."""
        if self._block < 0:
            return 0.0
        return self._each.slowdown(self._block // 2, self._block % 2 == 1)


def _disturbed_race(each: Disturbance, setting: Setting, seed: int) -> Trial:
    device = setting.device
    work, other = built(STEP, device), built(STEP, device)
    blocks = _Blocks(each, placement.anew([*work.tensors, *other.tensors], device, seed))
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
    played = rounds.paired(case, baseline, device, each.budget, seed, expected_s, blocks.redraw)
    ratio = stats.speedup(played.case_s, played.baseline_s)
    assert ratio is not None
    flags = diagnostics.raised(played.case_s, played.baseline_s, played.case_first)
    return Trial(ratio, flags, played.seconds)
