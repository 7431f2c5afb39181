"""Compares two steps: warm-up, paired rounds, and the load of the machine meanwhile.

Steps are any callables; nothing here depends on cases. The rounds are in `bench.timing.paired`. For
a case, `bench.case.paired_timing` calls this module and stores the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from modescope.bench.devices import devices
from modescope.bench.devices.devices import Device, Hardware, Step, untimed_s
from modescope.bench.records.columns.timing import Contention, DeviceState, Rounds
from modescope.bench.records.plans import Budget
from modescope.bench.stats import diagnostics, estimates
from modescope.bench.timing import contention, pace
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.paired import play_pairs
from modescope.bench.timing.rounds import UNWATCHED, Interruptions
from modescope.bench.timing.timers import calls_for, latency, reading_cost

FIRST_CALLS = 3  # graph modes of torch.compile: one warms up, one records, one replays
STEADY_WITHIN = 0.01


@dataclass(frozen=True)
class WarmUp:
    """How long warm-up took, whether it became steady, and the steps' time per call at its end."""

    seconds: float
    steady: bool
    per_call_s: tuple[float, ...]  # one per step


def warm_up(steps: Sequence[Step], device: Device, budget: Budget) -> WarmUp:
    """Calls the steps in turn until all are steady; gives up after `budget.warmup_max_s`.

    A step is steady if the median of its last third of blocks is within 1 % of the median of the
    third before. Every step is called at least three times.
    """
    cost_s = reading_cost(device.clock)
    start = device.clock()
    blocks = [list(latency(step, device, FIRST_CALLS).samples_s) for step in steps]
    while True:
        seconds = device.clock() - start
        steady = seconds >= budget.warmup_min_s and all(map(_is_steady, blocks))
        if steady or seconds >= budget.warmup_max_s:
            return WarmUp(seconds, steady, tuple(median(_windows(b)[1]) for b in blocks))
        for step, medians in zip(steps, blocks, strict=True):
            calls = calls_for(budget.block_s, medians[-1] + untimed_s(step), cost_s)
            medians.append(median(latency(step, device, calls).samples_s))


def _windows(blocks: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    size = len(blocks) // 3
    return blocks[-2 * size : -size], blocks[-size:]


def _is_steady(blocks: Sequence[float]) -> bool:
    earlier, later = map(median, _windows(blocks))
    return abs(later - earlier) <= STEADY_WITHIN * earlier


CountFromNow = Callable[[], Callable[[], int]]
"""A function that starts to count and returns a second function, which returns the count so far."""


@dataclass(frozen=True)
class PairedRun:
    """The paired rounds of case and baseline, or the rounds of the case alone."""

    rounds: Rounds
    steady: bool  # whether warm-up reached a steady state
    compilations: int  # while the rounds were timed

    @property
    def speedup(self) -> estimates.Estimate | None:
        """Baseline time over case time; None without a baseline."""
        rounds = self.rounds
        return estimates.speedup(
            rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first
        )


@dataclass(frozen=True)
class Measurement:
    """A comparison, and the load and device state during it."""

    comparison: PairedRun
    contention: Contention
    device_state: DeviceState


def compare(
    case: Step,
    baseline: Step | None,
    device: Device,
    budget: Budget,
    seed: int,
    redraw: Redraw,
    on_phase: Callable[[str], object] = lambda phase: None,
    count_compilations: CountFromNow = lambda: lambda: 0,
    watch: Interruptions = UNWATCHED,
) -> PairedRun:
    """Warms the steps up, then times them in paired rounds, whose order `seed` determines.

    `baseline`: None times the case alone. `redraw` (`bench.timing.memory_layout.make_redraw`) is
    called before the blocks of the rounds, `on_phase` with the name of each phase.
    `count_compilations` is called before the rounds; the function that it returns is called after
    them, and returns how often torch compiled meanwhile. This is reported, but raises nothing.
    `watch` counts interruptions of the timed calls.
    """
    on_phase("warm-up")
    warmth = warm_up([case] if baseline is None else [case, baseline], device, budget)
    on_phase("timing")
    compilations = count_compilations()
    expected_s = warmth.per_call_s
    rounds = play_pairs(
        case, baseline, device, budget, seed, expected_s, redraw, pace.clock(), watch
    )
    return PairedRun(replace(rounds, warmup_s=warmth.seconds), warmth.steady, compilations())


def measure(
    case: Step,
    baseline: Step | None,
    device: Hardware,
    budget: Budget,
    seed: int,
    redraw: Redraw,
    on_phase: Callable[[str], object] = lambda phase: None,
    count_compilations: CountFromNow = lambda: lambda: 0,
) -> Measurement:
    """Does what `compare` does, and records the load of the machine and the state of the device."""
    counters, before = contention.read(), devices.read_conditions(device)
    comparison = compare(
        case, baseline, device, budget, seed, redraw, on_phase, count_compilations,
        contention.interruptions(),
    )  # fmt: skip
    watched = contention.load_between(counters, contention.read())
    after = devices.read_conditions(device)
    return Measurement(comparison, watched, devices.device_state(before, after))


def flags(
    compared: PairedRun, load: Contention, state: DeviceState | None = None
) -> tuple[str, ...]:
    """Returns a comparison's flags (docs/how-to-read-a-report.md); `state`: None if unobserved."""
    rounds, seen = compared.rounds, state or DeviceState()
    of_conditions = {
        "no_steady_state": not compared.steady,
        "contended": diagnostics.is_contended(load, seen.gpu_processes),
        "throttled": diagnostics.is_throttled(seen.device_clock_hz, seen.throttle_reasons),
    }
    return (
        *diagnostics.flags(
            rounds.latency_rounds_s, rounds.baseline_latency_rounds_s, rounds.case_ran_first
        ),
        *(name for name, is_up in of_conditions.items() if is_up),
    )
