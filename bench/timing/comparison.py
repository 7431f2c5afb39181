"""Times a step, which is any callable: paired rounds, then further clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from modescope.bench.devices import clock_rate
from modescope.bench.devices.devices import Device, Hardware, Step
from modescope.bench.records.cases import Budget
from modescope.bench.records.columns import Clocks, Contention, DeviceState, Rounds
from modescope.bench.stats import estimates
from modescope.bench.timing import contention, further_clocks
from modescope.bench.timing.memory_layout import Redraw
from modescope.bench.timing.rounds import paired, warm_up

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
        return estimates.speedup(
            self.rounds.latency_rounds_s, self.rounds.baseline_latency_rounds_s
        )


@dataclass(frozen=True)
class Measurement:
    """A comparison, the further clocks of its case, and the conditions of both."""

    comparison: Comparison
    clocks: Clocks
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
    rounds = paired(case, baseline, device, budget, seed, warmth.per_call_s, redraw)
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
    """`compare`, then the further clocks of the case, with the load and the device's state.

    Stops after rounds in which something was compiled, because the step was not steady.
    """
    counters, samples = contention.read(), [clock_rate.sample(device)]
    comparison = compare(case, baseline, device, budget, seed, redraw, on_phase, count_compilations)
    if comparison.compilations:
        return Measurement(comparison, Clocks(), Contention(), DeviceState())
    samples.append(clock_rate.sample(device))
    on_phase("clocks")
    assert comparison.rounds.latency_rounds_s
    expected_s = median(comparison.rounds.latency_rounds_s)
    read = further_clocks.read(case, device, budget, seed, expected_s, redraw)
    samples.append(clock_rate.sample(device))
    watched = contention.between(counters, contention.read())
    return Measurement(comparison, read, watched, clock_rate.course(samples))
