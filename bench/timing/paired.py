"""Plays the paired rounds of two steps, from which the speedup and its interval come.

Decides how many rounds there are and how many calls a block has. Warm-up and the load of the
machine are in `bench.timing.comparison`, which calls this module.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from modescope.bench.devices.devices import CallSequence, Device, Step, untimed_s
from modescope.bench.records.columns.timing import Rounds
from modescope.bench.records.plans import Budget
from modescope.bench.stats import estimates
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.rounds import (
    UNWATCHED,
    Clock,
    Interruptions,
    Round,
    Seconds,
    Side,
    medians,
    orders,
    play,
    quiet_gc,
    settling_calls,
    thin,
)
from modescope.bench.timing.timers import calls_for, latency, reading_cost

SLOW = 0.8
"""A speedup whose interval lies below this after the pilot is a loss, whatever rounds follow."""

TURN_S = 0.02
"""Series of case and baseline take turns of about this length. Ratios of series of 0.9 s had a
standard deviation of 3.6 % when each was timed as a whole, of 2.9 % in turns of 100 ms, of 0.7 % in
turns of 25 ms."""

PILOT_PATIENCE = 10.0  # times the cap: a slow step may overrun it, as intervals need a pilot


def play_pairs(
    case: Step,
    baseline: Step | None,
    device: Device,
    budget: Budget,
    seed: int,
    per_call_s: Sequence[float],
    redraw: Redraw = lambda: None,
    pace: Clock | None = None,
    watch: Interruptions = UNWATCHED,
) -> Rounds:
    """Plays paired rounds of case and baseline; without a baseline, rounds of the case alone.

    After a pilot it is decided once how many rounds bring the speedup's interval to
    `budget.half_width`, within the budget's rounds and time. Significance plays no part: stopping
    once a difference is significant gives 20 % false alarms. If the pilot's speedup is below SLOW,
    `budget.slow_half_width` is enough, if that is given, and `stopped_early` says so.

    `per_call_s`: expected duration of a call of each step, as from `warm_up`. `seed`: determines
    the order within rounds. `redraw`: see `bench.timing.memory_layout`. `pace`: a clock to read in
    every round, see `bench.timing.pace`. `watch`: counts how often other programs took a core. The
    rounds in which they did are left out, unless fewer than the pilot's number would be left, as
    where calls are longer than a time slice.
    """
    steps = (case,) if baseline is None else (case, baseline)
    compared = latency_clock("latency", steps, device, budget, per_call_s, redraw)
    clocks = [compared, *([pace] if pace else [])]
    shuffle = random.Random(seed)
    with quiet_gc():
        start = device.clock()
        pilot = orders(clocks, budget.pilot_rounds, shuffle)
        patience = start + PILOT_PATIENCE * budget.timed_max_s
        played = play(clocks, pilot, device, patience, watch)
        coarse = budget.slow_half_width if _is_slow(played) else None
        goal = _goal(played, device.clock() - start, budget, coarse or budget.half_width)
        rest = orders(clocks, max(0, goal - len(played)), shuffle)
        played += play(clocks, rest, device, start + budget.timed_max_s, watch)
        seconds = device.clock() - start
    calm = [round_ for round_ in played if not round_.interruptions]
    kept = calm if len(calm) >= budget.pilot_rounds else played
    case_s, baseline_s = _durations(kept)
    return Rounds(
        timed_s=seconds,
        calls_per_round=compared.sides[0].calls,
        latency_rounds_s=case_s,
        baseline_latency_rounds_s=baseline_s,
        case_ran_first=None if baseline is None else tuple(round_.case_first for round_ in kept),
        pace_rounds_s=medians(kept, 1, 0) if pace else None,
        rounds_left_out=len(played) - len(kept),
        stopped_early=coarse is not None,
        latency_calls_s=thin([call_s for round_ in played for call_s in round_.case_calls_s]),
    )


def latency_clock(
    name: str,
    steps: Sequence[Step],
    device: Device,
    budget: Budget,
    per_call_s: Sequence[float],
    redraw: Redraw,
) -> Clock:
    """Returns a clock called `name` that times the latency of calls, in blocks of `budget.block_s`.

    `steps`: the case, and the baseline if there is one. `per_call_s`: about how long a call of each
    takes. `redraw`: see `bench.timing.memory_layout`. If both steps are series (made of several
    calls) and long, they are timed in alternating parts of about TURN_S.
    """
    cost_s = reading_cost(device.clock)
    lengths = [len(step.calls) for step in steps if isinstance(step, CallSequence)]
    turns = min(*lengths, math.ceil(max(per_call_s) / TURN_S)) if len(lengths) > 1 else 1
    sides = (
        Side(
            step,
            latency,
            calls_for(budget.block_s, expected_s + untimed_s(step), cost_s) if turns == 1 else 1,
            settling_calls(expected_s),
        )
        for step, expected_s in zip(steps, per_call_s, strict=True)
    )
    return Clock(name, tuple(sides), redraw, turns)


def _is_slow(played: Sequence[Round]) -> bool:
    ratio = estimates.speedup(*_durations(played), [round_.case_first for round_ in played])
    return ratio is not None and ratio.high is not None and ratio.high < SLOW


def _goal(played: Sequence[Round], seconds: float, budget: Budget, half_width: float) -> int:
    """Returns how many rounds to play in all, given the pilot's rounds `played`.

    They took `seconds`. `half_width`: of the interval, to be reached within the budget. The number
    is even if possible, so that both orders are equally common.
    """
    needed = estimates.rounds_needed(
        *_durations(played), half_width, budget.min_rounds, budget.max_rounds
    )
    affordable = int(budget.timed_max_s * len(played) / seconds)
    return min(needed + needed % 2, budget.max_rounds, affordable)


def _durations(played: Sequence[Round]) -> tuple[Seconds, Seconds | None]:
    has_baseline = len(played[0].timings[0]) > 1
    return medians(played, 0, 0), medians(played, 0, 1) if has_baseline else None
