"""Diagnostics: what each flag means, and those that a run's own rounds and clocks raise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from analysis import conditions, limits, numbers, split, words
from analysis.words import Row
from bench import diagnostics, pace
from bench.stats import Estimate

TOLERANCE = 0.05  # of an invariant: what is left of noise once medians are taken

# flag -> what it means and what helps: those that bear on the speedup, which a recommendation tells
ON_SPEEDUP = {
    "no_steady_state": "warm-up ended before times settled: give it longer (budget=thorough).",
    "drift": "from the first rounds to the last the latency moved by more than "
    f"{numbers.percent(diagnostics.DURATION_DRIFT)}, or the speedup by more than "
    f"{numbers.percent(diagnostics.RATIO_DRIFT)}, so it depends on when it was taken: let the "
    "machine come to rest and measure again.",
    "autocorrelated": "a round resembles the one before it, so the interval should be wider by "
    f"{numbers.whole_percent(diagnostics.UNDERSTATED)} or more: let several processes say how far "
    "results differ (replicates=5).",
    "bimodal": "the rounds come at two levels more than "
    f"{numbers.whole_percent(diagnostics.MODE_DISTANCE)} apart, and the median speaks for one of "
    "them: see with replicates=5 whether both come back, and keep other work off the machine.",
    "order_effect": "the speedup depends on whether the case or the baseline ran first in a round, "
    "as under a load that comes back with every round, and the median lies between the two: stop "
    "that load, or change the length of a round (another budget), and measure again.",
    "contended": "other work wanted the cores, or a quota held this process back (cpu_wait_s, "
    "others_cpu_s, cgroup_throttled_s), or others computed on the GPU (gpu_processes) while the "
    "case was measured: stop them, lift the quota, or ask for fewer threads than there are cores.",
    "throttled": "the clock was lowered while the case was measured (device_clock_hz fell by more "
    f"than {numbers.whole_percent(pace.CLOCK_FALL)}, or throttle_reasons says why): let it cool "
    "down, or lock the clock at one that its limits allow, and measure again.",
}
FLAGS = ON_SPEEDUP | {
    "baseline_wrong": "the baseline's own result is off, so nothing is compared with it: choose "
    "another baseline.mode or baseline.dtype.",
    "baseline_not_in_effect": "the baseline did not do what its name says, so there is no speedup "
    "against it: choose another baseline.mode or baseline.dtype.",
    "queue_full": "the queue took fewer calls than a block of device time should have "
    "(device_calls of device_calls_wanted), so device_s is coarser than elsewhere: a mode with "
    "fewer launches, such as cuda-graph, shows it better.",
    "not_isolable": "launches could not be queued ahead, so device_s is unknown: the mode waits "
    "for the device within a call, or overfills its queue.",
    "broken_invariant": "latency, host, device and pipelined time contradict each other by more "
    f"than {numbers.whole_percent(TOLERANCE)}, so the split of a call is not to be trusted: the "
    "machine changed its pace between them; measure again.",
    "graph_contradicts_gate": "device_s of plain eager and of eager captured in a graph "
    f"(mode=cuda-graph) differ by more than {numbers.whole_percent(TOLERANCE)} although both run "
    "the same kernels: a graph shortens the pauses between many small ones, or the GPU's clock was "
    "another; hold kernels_s of both against each other, and lock the clock to measure again.",
    "split_disagrees": "the profiler's kernels (kernels_s) differ from latency_s - dispatch_s by "
    f"more than {numbers.whole_percent(split.TOLERANCE)} although dispatch is at most "
    f"{numbers.whole_percent(split.MOST_DISPATCH)} of the call (with more of it nothing is asked), "
    "so the split, and fusion_gain with it, is unconfirmed: measure again with nothing beside it "
    "(with profiler_overhead far above 1 the profiled calls were slower than those timed).",
    limits.BEATEN: "the work took less than the floor that the ceilings of the device set "
    "(roofline_fraction above 1), so it is no floor: what stays in a cache moves faster than what "
    "set ceiling_bytes_per_s, or on a CPU dispatch leaves too little of the call for work; take a "
    "larger shape.",
    "profile_empty": "the profiler recorded no step, so kernels and idle time are unknown: profile "
    "again, with no other profiler attached to the process or the GPU.",
    "profile_busy_exceeds_span": "the profiled call was busy for longer than it lasted, so its "
    "clocks disagree: take nothing from the profile, and measure again.",
    "profile_lost_events": "launches in the trace have no kernel there, so kernels and busy time "
    "are too low: profile a smaller shape, which fits the profiler's buffers.",
    "profile_contradicts_device_time": "kernels under the profiler and device_s differ by more "
    f"than {numbers.whole_percent(split.TOLERANCE)}, so idle time is not to be trusted: let clocks "
    "settle or lock them, and measure again.",
}


def raised(run: Row) -> list[str]:
    """The flags that the rounds of a run (`bench.diagnostics`) and its clocks give away.

    `run` has the stored rounds, and the estimates of its clocks as `_latency`, `_host`, `_device`,
    `_pipelined` and `_dispatch`.
    """
    if run["status"] != "ok" or words.is_smoke(run):
        return []  # a smoke run has no warm-up: its rounds and clocks say nothing about each other
    rounds = (run["latency_rounds_s"], run["baseline_latency_rounds_s"], run["case_ran_first"])
    return [
        *diagnostics.raised(*rounds), *conditions.raised(run), *_of_clocks(run),
        *_of_split(run), *_of_floor(run),
    ]  # fmt: skip


def _of_clocks(run: Row) -> list[str]:
    if run["_host"] is None:
        return []
    on_cuda = words.on_cuda(run)
    if on_cuda and run["_device"] is None:
        return ["not_isolable"]
    broken = any(_cuda_contradictions(run) if on_cuda else _cpu_contradictions(run))
    return ["broken_invariant"] if broken else []


def _of_split(run: Row) -> list[str]:
    return ["split_disagrees"] if split.disagrees(run) else []


def _of_floor(run: Row) -> list[str]:
    return [limits.BEATEN] if limits.is_beaten(run) else []


def _cpu_contradictions(run: Row) -> Iterator[bool]:
    """Nothing runs ahead on a CPU: a call takes the same time on every clock."""
    clocks = (run["_latency"], run["_host"], run["_pipelined"])
    for one, other in combinations([clock for clock in clocks if clock is not None], 2):
        yield exceeds(one, other) or exceeds(other, one)


def _cuda_contradictions(run: Row) -> Iterator[bool]:
    """The longer of host and device sets the pace; both together bound the latency."""
    latency, pipelined = run["_latency"], run["_pipelined"]
    (host_low, host_high), (device_low, device_high) = _ends(run["_host"]), _ends(run["_device"])
    slower = Estimate(host_low, max(host_low, device_low), max(host_high, device_high))
    synchronise_s = run["synchronize_s"] or 0.0
    both = host_high + device_high + synchronise_s
    if pipelined is not None:
        yield exceeds(pipelined, slower) or exceeds(slower, pipelined)
    if latency is not None:
        yield exceeds(slower, latency)
        yield exceeds(latency, Estimate(both, both, both))


def exceeds(one: Estimate, other: Estimate) -> bool:
    """Whether `one` is larger, by more than TOLERANCE even at the nearest ends of the intervals."""
    return _ends(one)[0] > _ends(other)[1] * (1 + TOLERANCE)


def _ends(estimate: Estimate) -> tuple[float, float]:
    """The interval, or the value twice where there is none."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return (value if low is None else low), (value if high is None else high)
