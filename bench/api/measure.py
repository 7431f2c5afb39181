"""Times two functions in turns, in the caller's process, and says which is faster.

    import modescope

    result = modescope.measure(old, new)
    print(result)  # new is 1.021× [1.018, 1.024] as fast as old: faster ...

The functions are timed as a baseline and a mode are in a study: a warm-up, then paired rounds in
random order. But a study uses a fresh process for each mode, and `measure` the caller's process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import median

import torch

from modescope.bench.devices.cuda import use_device
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.evidence import compiler_counts
from modescope.bench.model import compiler, trees
from modescope.bench.model.outputs import find_unfinished
from modescope.bench.modes import kernels
from modescope.bench.records.errors import UsageError
from modescope.bench.records.plans import Budget
from modescope.bench.stats import estimates
from modescope.bench.text import seconds as duration
from modescope.bench.timing import comparison, memory_layout, timers
from modescope.bench.timing.comparison import FIRST_CALLS, flags
from modescope.bench.timing.paired import latency_clock
from modescope.bench.timing.rounds import round_seconds

BLOCK_S = 1e-3  # as in budget=quick
PILOT_ROUNDS = 12
LEAST_ROUNDS, MOST_ROUNDS = 20, 2000

WARM_UP_SHARES = 1 / 6, 1 / 4
"""Shortest and longest warm-up as shares of `seconds`. The rounds get what the longest warm-up
would leave."""

LATER_CALLS = FIRST_CALLS - 1
"""The calls that show how long a function takes. A first one, which may compile, precedes them."""

SHORTEST_S = 20e-6
"""A function that takes less time is called in a loop that takes this long in all, because reading
the clock takes about 50 ns."""

MOST_CALLS = 10_000  # of a function in such a loop


@dataclass(frozen=True)
class Measured:
    """How fast a candidate is compared with its baseline.

    Fields have the names of the columns in a study's rows.
    """

    baseline: str  # names of the functions
    candidate: str
    speedup: float  # time of the baseline ÷ time of the candidate: above 1, the candidate is faster
    speedup_ci_low: float | None  # 95 % interval; None where there were fewer than 12 rounds
    speedup_ci_high: float | None
    verdict: str | None  # a value of `bench.stats.estimates.Verdict`, of the candidate
    mde: float | None  # smallest change that such a measurement detects in 80 % of cases; 0.02: 2 %
    latency_s: float  # median time of a call of the candidate
    baseline_latency_s: float
    flags: tuple[str, ...]  # what disturbed the measurement
    device: str  # cpu | cuda
    seconds: float  # duration of warm-up and rounds
    ratios: tuple[float, ...]  # time of the baseline ÷ time of the candidate, in each round

    def __str__(self) -> str:
        mde = None if self._is_wide() else self.mde
        detects = "" if mde is None else f", detects changes of {100 * mde:.2g} %"
        return "\n".join(
            [
                f"{self.candidate} is {self._factor()} as fast as {self.baseline}: "
                f"{self.verdict or 'unknown, as there were too few rounds; allow more seconds'}",
                f"{self.baseline} {duration(self.baseline_latency_s)}, {self.candidate} "
                f"{duration(self.latency_s)}; {len(self.ratios)} rounds in "
                f"{duration(self.seconds)}{detects}",
                *([f"flags: {', '.join(self.flags)}"] if self.flags else []),
            ]
        )

    def _is_wide(self) -> bool:
        ends = self.speedup_ci_low, self.speedup_ci_high
        return estimates.is_wide(estimates.Estimate(self.speedup, *ends))

    def _factor(self) -> str:
        """The speedup with its interval; of a wide one the ends alone (`estimates.is_wide`)."""
        low, high = self.speedup_ci_low, self.speedup_ci_high
        if low is None or high is None:
            return f"{self.speedup:.3f}× without an interval"
        if not self._is_wide():
            return f"{self.speedup:.3f}× [{low:.3f}, {high:.3f}]"
        if low > 1:
            return f"at least {low:.2f}×"
        return f"at most {high:.2f}×" if high < 1 else f"between {low:.2f}× and {high:.2f}×"


def measure(
    baseline: Callable[[], object],
    candidate: Callable[[], object],
    *,
    seconds: float = 2.0,
    half_width: float = 0.005,
    device: str = "auto",
) -> Measured:
    """Measures how many times as fast as `baseline` the function `candidate` is.

    Both are called in this process without arguments, a few hundred times or more, in rounds of
    random order.

    Args:
        baseline: the function to compare with.
        candidate: the function that may be faster.
        seconds: the most time that warm-up and rounds may take. It includes neither the first three
            calls of each function, which may compile, nor a collection of garbage (0.1 s). An
            interval needs 12 rounds of some six calls: if these calls show that the rounds take
            longer, nothing is measured, and the error names the seconds needed.
        half_width: the rounds end early once the relative half-width of the speedup's 95 % interval
            is at most this (0.005: ± 0.5 %).
        device: `auto` (the current GPU, if this process has used a GPU, else the CPU), `cpu`,
            `cuda` (the current GPU) or `cuda:1`. The end of each call on a GPU is waited for.

    Raises:
        UsageError: an argument is wrong, `seconds` are too few for functions that take so long,
            torch has no such device, a result lies on another GPU, or a function returns a
            generator, coroutine, iterator or future, which works later.
        RuntimeError: torch compiled again while the functions were timed.
        Exception: whatever a function raises.
    """
    if not (0 < seconds < math.inf and 0 < half_width < math.inf):
        raise UsageError(f"seconds={seconds} half_width={half_width}: must be numbers above 0")
    if interpreted := kernels.interpreted():
        raise UsageError(interpreted)
    # first calls may compile, or use a GPU for the first time
    places = _first_call(baseline) | _first_call(candidate)
    compiler.wait_for_workers()
    with use_device(device) as hardware:
        for place in places:  # work on another GPU is not waited for, so that calls look short
            if place.type == "cuda" and place != hardware.torch_device:
                raise UsageError(
                    f"a function returns a tensor on {place}, and what is measured is "
                    f"{hardware.torch_device}; use device='{place}'"
                )
        return race(baseline, candidate, hardware, seconds, half_width)


def _first_call(function: Callable[[], object]) -> set[torch.device]:
    """Calls `function` and returns the devices of the tensors in its result."""
    result = function()
    if kind := find_unfinished(result):
        raise UsageError(
            f"{getattr(function, '__name__', function)} returned {kind}, which has not done its "
            "work yet; finish it within the function, as in list(...), asyncio.run(...) or "
            "future.result()"
        )
    return {tensor.device for tensor in trees.tensors(result)}


def race(
    baseline: Step, candidate: Step, device: Hardware, seconds: float, half_width: float
) -> Measured:
    """Times two functions, which must have been called before, in warm-up and paired rounds.

    Takes `seconds` and `half_width` as `measure` does. Raises the same RuntimeError, and UsageError
    if `seconds` are too few.
    """
    steps = (candidate, baseline)
    seen = [timers.latency(step, device, LATER_CALLS).samples_s for step in steps]
    shortest_s = max(min(map(min, seen)), SHORTEST_S / MOST_CALLS)
    calls = 1 if device.queues else math.ceil(SHORTEST_S / shortest_s)
    names = [getattr(step, "__name__", "") for step in (baseline, candidate)]
    if names[0] == names[1] or not all(name.isidentifier() for name in names):
        names = ["baseline", "candidate"]  # as of two lambdas
    least, most = (share * seconds for share in WARM_UP_SHARES)
    budget = Budget(
        name="measure",
        rank=0,
        warmup_min_s=least,
        warmup_max_s=most,
        block_s=BLOCK_S,
        pilot_rounds=PILOT_ROUNDS,
        min_rounds=LEAST_ROUNDS,
        max_rounds=MOST_ROUNDS,
        half_width=half_width,
        timed_max_s=seconds - most,
        clock_rounds=0,
    )
    if _needed_s([calls * min(times_s) for times_s in seen], device, budget) > seconds:
        needed_s = _needed_s([calls * max(times_s) for times_s in seen], device, budget)
        lasts = [duration(min(times_s)) for times_s in reversed(seen)]
        loops = f", each in loops of {calls} calls" if calls > 1 else ""
        raise UsageError(
            f"seconds={seconds:g}: a call of {names[0]} takes {lasts[0]} and one of {names[1]} "
            f"{lasts[1]}, so that the {PILOT_ROUNDS} rounds of an interval take longer{loops}; use "
            f"seconds={math.ceil(needed_s)}"
        )
    begin = time.perf_counter()
    reasons = compiler_counts.recompile_reasons()
    measured = comparison.measure(
        _loop(candidate, calls),
        _loop(baseline, calls),
        device,
        budget,
        seed=0,
        redraw=memory_layout.make_redraw((), device, seed=0),
        count_compilations=compiler_counts.count_compilations,
    )
    found = measured.comparison
    if found.compilations:
        why = reasons()
        raise RuntimeError(
            f"torch compiled {found.compilations} more time(s) while the functions were timed, so "
            "their times would include it; call them with fewer different inputs"
            f"{f': {why[0]}' if why else ''}"
        )
    ours_s, theirs_s = found.rounds.latency_rounds_s, found.rounds.baseline_latency_rounds_s
    speedup = found.speedup
    assert speedup is not None  # there is a baseline
    assert theirs_s is not None
    verdict = estimates.verdict(speedup)
    return Measured(
        baseline=names[0],
        candidate=names[1],
        speedup=speedup.value,
        speedup_ci_low=speedup.low,
        speedup_ci_high=speedup.high,
        verdict=None if verdict is None else verdict.value,
        mde=estimates.mde(speedup),
        latency_s=median(ours_s) / calls,
        baseline_latency_s=median(theirs_s) / calls,
        flags=flags(found, measured.contention, measured.device_state),
        device=device.type,
        seconds=time.perf_counter() - begin,
        ratios=tuple(theirs / ours for ours, theirs in zip(ours_s, theirs_s, strict=True)),
    )


def _needed_s(per_step_s: Sequence[float], device: Hardware, budget: Budget) -> float:
    """Returns the `seconds` whose share for the rounds holds the pilot of steps that take so long.

    Warm-up needs no more than its share: FIRST_CALLS of each step are fewer than a pilot's.
    """
    steps = (lambda: None,) * len(per_step_s)  # only counted
    clock = latency_clock("latency", steps, device, budget, per_step_s, lambda: None)
    return PILOT_ROUNDS * round_seconds(clock, per_step_s) / (1 - WARM_UP_SHARES[1])


def _loop(step: Step, calls: int) -> Step:
    if calls == 1:
        return step

    def loop() -> None:
        for _ in repeat(None, calls):
            step()

    return loop
