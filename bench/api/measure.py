"""Which of two functions is faster, timed in turns in the caller's process.

    import modescope

    result = modescope.measure(old, new)
    print(result)  # new is 1.021× [1.018, 1.024] as fast as old: faster ...

This is the race of baseline and mode in a study, for any two functions: warm-up, then paired rounds
in random order (`bench.timing.comparison`). A study has a fresh process for each mode; here both
functions share the caller's, with whatever else that does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from numbers import Real
from statistics import median
from typing import Any

import torch

from modescope.bench.api.measured import Measured
from modescope.bench.devices.chosen import chosen
from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.records.cases import Budget
from modescope.bench.records.errors import UsageError
from modescope.bench.stats import estimates
from modescope.bench.steps import compiler, trees
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.outputs import unfinished
from modescope.bench.timing import memory_layout, timers
from modescope.bench.timing.comparison import Measurement
from modescope.bench.timing.comparison import measure as compared
from modescope.bench.timing.flags import raised
from modescope.bench.timing.warm_up import FIRST_CALLS

BLOCK_S = 1e-3  # as in budget=quick
PILOT_ROUNDS = 12
LEAST_ROUNDS, MOST_ROUNDS = 20, 2000

WARM_UP_SHARES = 1 / 6, 1 / 4
"""Of the seconds: the least of the warm-up, and the most. Rounds have the rest."""

SHORTEST_S = 20e-6
"""A shorter function is timed in a loop of as many calls, as reading the clock takes some 50 ns."""

MOST_CALLS = 10_000  # of such a loop


def measure(
    baseline: Callable[[], object],
    candidate: Callable[[], object],
    *,
    seconds: float = 2.0,
    half_width: float = 0.005,
    margin: float = estimates.MARGIN,
    device: str = "auto",
    tensors: Sequence[torch.Tensor] = (),
    seed: int = 0,
) -> Measured:
    """How many times as fast as `baseline` the function `candidate` is, in this process.

    Both are called without arguments, a few hundred times or more, in rounds of random order.

    Args:
        baseline: what is compared with.
        candidate: what may be faster.
        seconds: most time for warm-up and rounds. Before come a first call of each, which may
            compile, and a collection of garbage (0.1 s). Functions that take longer than a
            hundredth of it overrun it, because an interval needs 12 rounds of some six calls.
        half_width: rounds end earlier once the speedup is known to ± this (0.005: 0.5 %).
        margin: `faster` and `slower` are said only beyond ± this (0.01: 1 %).
        device: `auto` (the current GPU, if this process has used one, else the CPU), `cpu`, `cuda`
            (the current GPU) or `cuda:1`. On a GPU each call is waited for.
        tensors: tensors of the functions that may be moved to other memory between blocks, so that
            where they happen to lie does not count as a difference. Values stay; views of them that
            were taken before do not follow. On a GPU nothing is moved.
        seed: of the order of rounds and of memory layouts.

    Raises:
        UsageError: an argument is wrong, torch has no such device, a result lies on another GPU, or
            a function returns a generator, coroutine, iterator or future, which works later.
        RuntimeError: torch compiled again while the functions were timed.
        Exception: whatever a function raises.
    """
    numbers = {"seconds": seconds, "half_width": half_width, "margin": margin}
    _check(baseline, candidate, numbers, tensors)
    begin = time.perf_counter()
    # first calls may compile, or use a GPU for the first time
    results = baseline(), candidate()
    for function, returned in zip((baseline, candidate), results, strict=True):
        _check_finished(function, returned)
    places = {tensor.device for tensor in trees.tensors(results)}
    del results, returned
    compiler.wait_for_workers()
    with chosen(device) as hardware:
        _check_places(places, hardware.torch_device)
        race = raced(baseline, candidate, hardware, budget(seconds, half_width), seed, tensors)
    return result(
        race,
        names=named(baseline, candidate),
        margin=margin,
        device=hardware.type,
        seconds=time.perf_counter() - begin,
    )


@dataclass(frozen=True)
class Race:
    """A measurement of loops of `calls` calls each."""

    measurement: Measurement
    calls: int


def raced(
    baseline: Step,
    candidate: Step,
    device: Hardware,
    budget: Budget,
    seed: int,
    tensors: Sequence[torch.Tensor] = (),
) -> Race:
    """The race of two functions that were called before. Raises RuntimeError, see `measure`."""
    calls = loop_calls(baseline, candidate, device)
    reasons = mode_effect.recompile_reasons()
    measurement = compared(
        looped(candidate, calls),
        looped(baseline, calls),
        device,
        budget,
        seed,
        memory_layout.anew(tensors, device, seed),
        count_compilations=mode_effect.count_compilations,
    )
    if again := measurement.comparison.compilations:
        why = reasons()
        raise RuntimeError(
            f"torch compiled {again} more time(s) while the functions were timed, so their times "
            f"would include it; call them with fewer different inputs{f': {why[0]}' if why else ''}"
        )
    return Race(measurement, calls)


def budget(seconds: float, half_width: float) -> Budget:
    """The budget of a race that takes no longer than `seconds`."""
    least, most = (share * seconds for share in WARM_UP_SHARES)
    return Budget(
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


def loop_calls(baseline: Step, candidate: Step, device: Device) -> int:
    """How many calls make the faster function as long as the clock needs; 1 where calls queue."""
    if device.queues:
        return 1
    shortest_s = min(
        sample
        for step in (baseline, candidate)
        for sample in timers.latency(step, device, FIRST_CALLS).samples_s
    )
    return min(MOST_CALLS, math.ceil(SHORTEST_S / shortest_s)) if shortest_s > 0 else MOST_CALLS


def looped(step: Step, calls: int) -> Step:
    """A step of so many calls."""
    if calls == 1:
        return step

    def loop() -> None:
        for _ in repeat(None, calls):
            step()

    return loop


def named(baseline: Callable[[], object], candidate: Callable[[], object]) -> tuple[str, str]:
    """The names of the two functions; `baseline` and `candidate` where those do not tell them."""
    names = [getattr(each, "__name__", "") for each in (baseline, candidate)]
    if names[0] == names[1] or not all(name.isidentifier() for name in names):
        return "baseline", "candidate"
    return names[0], names[1]


def result(
    race: Race, names: tuple[str, str], margin: float, device: str, seconds: float
) -> Measured:
    """The race as its caller reads it. Raises UsageError where no call took any time."""
    found = race.measurement.comparison
    case_s, baseline_s = found.rounds.latency_rounds_s, found.rounds.baseline_latency_rounds_s
    speedup = found.speedup
    if speedup is None or case_s is None or baseline_s is None:
        raise UsageError("no call took any time by this machine's clock; do more in one call")
    return Measured(
        baseline=names[0],
        candidate=names[1],
        speedup=speedup.value,
        speedup_ci_low=speedup.low,
        speedup_ci_high=speedup.high,
        verdict=estimates.verdict(speedup, margin),
        mde=estimates.mde(speedup),
        latency_s=median(case_s) / race.calls,
        baseline_latency_s=median(baseline_s) / race.calls,
        flags=raised(found, race.measurement.contention, race.measurement.device_state),
        device=device,
        seconds=seconds,
        ratios=tuple(theirs / ours for ours, theirs in zip(case_s, baseline_s, strict=True)),
    )


def _check_places(places: set[torch.device], measured: torch.device) -> None:
    """Raises UsageError for results on a GPU that is not waited for, so that calls look short."""
    for place in places:
        if place.type == "cuda" and place != measured:
            raise UsageError(
                f"a function returns a tensor on {place}, and what is measured is {measured}; use "
                f"device='{place}'"
            )


def _check_finished(function: Callable[[], object], returned: object) -> None:
    """Raises UsageError where a function returns before it has worked, so that it looks fast."""
    if kind := unfinished(returned):
        raise UsageError(
            f"{getattr(function, '__name__', function)} returned {kind}, which has not done its "
            "work yet; finish it within the function, as in list(...), asyncio.run(...) or "
            "future.result()"
        )


def _check(baseline: Any, candidate: Any, numbers: dict[str, Any], tensors: Any) -> None:
    for name, function in (("baseline", baseline), ("candidate", candidate)):
        if not callable(function):
            raise UsageError(
                f"{name} is {type(function).__name__}, and must be a function without arguments: "
                "wrap a call, as in lambda: model(x)"
            )
    for name, number in numbers.items():
        if not (isinstance(number, Real) and 0 < float(number) < math.inf):
            raise UsageError(f"{name}={number!r}: must be a number above 0")
    if not isinstance(tensors, list | tuple) or not all(map(torch.is_tensor, tensors)):
        raise UsageError("tensors: must be a list of tensors, as in list(model.parameters())")
