"""Compares two steps, which are any callables: warm-up, paired rounds, and their conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from modescope.bench.devices import devices
from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import Contention, DeviceState, Rounds
from modescope.bench.stats import estimates
from modescope.bench.timing import contention, pace
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.paired import paired
from modescope.bench.timing.warm_up import warm_up

CountFromNow = Callable[[], Callable[[], int]]
"""Starts to count; calling the result gives the count since then."""


@dataclass(frozen=True)
class Comparison:
    """Paired rounds of two steps, or rounds of one alone."""

    rounds: Rounds
    steady: bool  # whether warm-up reached a steady state
    compilations: int  # while the rounds were timed

    @property
    def speedup(self) -> estimates.Estimate | None:
        """Baseline time over case time; None without a baseline."""
        of = self.rounds
        return estimates.speedup(
            of.latency_rounds_s, of.baseline_latency_rounds_s, of.case_ran_first
        )


@dataclass(frozen=True)
class Measurement:
    """A comparison and its conditions."""

    comparison: Comparison
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
) -> Comparison:
    """Warm-up to a steady state, then paired rounds in an order that depends on `seed`.

    `redraw` (`bench.timing.memory_layout.anew`) is called before each block of the rounds,
    `on_phase` with the name of each phase. The caller decides what to do about compilations.
    """
    on_phase("warm-up")
    warmth = warm_up([case] if baseline is None else [case, baseline], device, budget)
    on_phase("timing")
    compilations = count_compilations()
    expected_s = warmth.per_call_s
    rounds = paired(case, baseline, device, budget, seed, expected_s, redraw, pace.clock())
    return Comparison(replace(rounds, warmup_s=warmth.seconds), warmth.steady, compilations())


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
    """`compare`, with the load of the machine and the device's state meanwhile."""
    counters, before = contention.read(), devices.read_conditions(device)
    comparison = compare(case, baseline, device, budget, seed, redraw, on_phase, count_compilations)
    watched = contention.between(counters, contention.read())
    return Measurement(
        comparison, watched, devices.device_state([before, devices.read_conditions(device)])
    )
