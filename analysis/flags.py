"""Diagnostics: what each flag means, and those that follow from a run's own clocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from analysis import words
from analysis.words import Row
from bench.stats import Estimate

TOLERANCE = 0.05  # of an invariant: what is left of noise once medians are taken

# flag -> what it means and what helps
FLAGS = {
    "no_steady_state": "warm-up ended before times settled: give it longer (budget=thorough).",
    "baseline_wrong": "the baseline's own result is off, so nothing is compared with it: choose "
    "another baseline.mode or baseline.dtype.",
    "baseline_not_in_effect": "the baseline did not do what its name says, so there is no speedup "
    "against it: choose another baseline.mode or baseline.dtype.",
    "not_isolable": "launches could not be queued ahead, so device_s is unknown: the mode waits "
    "for the device within a call, or overfills its queue.",
    "broken_invariant": "latency, host, device and pipelined time contradict each other by more "
    f"than {words.whole_percent(TOLERANCE)}, so the split of a call is not to be trusted: the "
    "machine changed its pace between them; measure again.",
}


def raised(run: Row) -> list[str]:
    """The flags that a run's clocks give away: `broken_invariant`, `not_isolable`.

    `run` has the estimates of its clocks as `_latency`, `_host`, `_device` and `_pipelined`.
    """
    if run["status"] != "ok" or run["_host"] is None or words.is_smoke(run):
        return []  # a smoke run has no warm-up: its clocks say nothing about each other
    on_cuda = words.on_cuda(run)
    if on_cuda and run["_device"] is None:
        return ["not_isolable"]
    broken = any(_cuda_contradictions(run) if on_cuda else _cpu_contradictions(run))
    return ["broken_invariant"] if broken else []


def meanings(flags: Iterable[str]) -> dict[str, str]:
    """The explained ones among `flags`, in the order of FLAGS."""
    seen = set(flags)
    return {name: meaning for name, meaning in FLAGS.items() if name in seen}


def _cpu_contradictions(run: Row) -> Iterator[bool]:
    """Nothing runs ahead on a CPU: a call takes the same time on every clock."""
    clocks = (run["_latency"], run["_host"], run["_pipelined"])
    for one, other in combinations([clock for clock in clocks if clock is not None], 2):
        yield _exceeds(one, other) or _exceeds(other, one)


def _cuda_contradictions(run: Row) -> Iterator[bool]:
    """The longer of host and device sets the pace; both together bound the latency."""
    latency, pipelined = run["_latency"], run["_pipelined"]
    (host_low, host_high), (device_low, device_high) = _ends(run["_host"]), _ends(run["_device"])
    slower = Estimate(host_low, max(host_low, device_low), max(host_high, device_high))
    synchronise_s = run["synchronize_s"] or 0.0
    both = host_high + device_high + synchronise_s
    if pipelined is not None:
        yield _exceeds(pipelined, slower) or _exceeds(slower, pipelined)
    if latency is not None:
        yield _exceeds(slower, latency)
        yield _exceeds(latency, Estimate(both, both, both))


def _exceeds(one: Estimate, other: Estimate) -> bool:
    """Whether even the nearest ends of the intervals are further apart than TOLERANCE."""
    return _ends(one)[0] > _ends(other)[1] * (1 + TOLERANCE)


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The interval, or the value twice where there is none."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return (value if low is None else low), (value if high is None else high)
