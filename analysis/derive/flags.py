"""Flags, which mark doubtful results: what they mean, and what a table says of them.

Those that a single row shows are raised by `bench.summary`, the others by `analysis.derive.raised`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench import summary
from modescope.bench.records.outcomes import Status
from modescope.bench.stats import diagnostics
from modescope.bench.stats.diagnostics import CLOCK_FALL, SLOW_PACE
from modescope.bench.stats.estimates import is_wide
from modescope.bench.summary import GROWS

CONTENDED = "contended"
"""The flag of a run during which other programs used the processor or the GPU."""

BEATEN = "above_ceiling"
"""The flag of a row whose work took less time than its floor (`floor_s`)."""

GATE = "graph_contradicts_gate"
"""The flag of plain eager, and of eager in a CUDA graph, if their device times disagree.

Two independent methods keep the host out of device time: the gate (launches are queued while the
device is held), and a captured graph. Both run eager's kernels. The two rows come from two
processes, so each is compared with the device time of its own baseline, which is the same for both.
"""

GAP_S = 1e-6
"""By how much a graph shortens the pause between two kernels (`bench.passes.profiler.profile`)."""

SLOW = "slow_pace"

LONGER = "profile_longer_than_call"
"""The flag of a profile whose call took far longer than the timed calls."""

MOST_LONGER = 4.0
"""How many times as long as a timed call a profiled one may take. Of 283 kept rows half take up to
1.15 times as long, 99 in 100 up to 3.2, and all up to 3.6."""


class Doubted(StrEnum):
    """The kinds of numbers in a row that a flag can make doubtful.

    DEVICE: the device's time. ROOFLINE: the least possible time of the work, and the share that it
    is of the measured time. PROFILE: what the profiler recorded, such as kernels and idle time.
    """

    SPEEDUP = "speedup"  # the paired ratio; without a baseline, the latency
    LATENCY = "latency"  # absolute times
    DEVICE = "device"
    SPLIT = "split"  # of a call, into dispatch and work
    ROOFLINE = "roofline"
    PROFILE = "profile"


@dataclass(frozen=True)
class Flag:
    """What a flag means, what to do, and what it makes doubtful."""

    touches: Doubted
    meaning: str  # and remedy


FLAGS = {
    "drift": Flag(
        Doubted.SPEEDUP,
        "from the first rounds to the last the speedup changed by more than "
        f"{numbers.percent(diagnostics.RATIO_DRIFT)} (without a baseline the latency by more than "
        f"{numbers.percent(diagnostics.DURATION_DRIFT)}), so the result depends on when it was "
        "taken: let the machine settle and measure again.",
    ),
    "autocorrelated": Flag(
        Doubted.SPEEDUP,
        "successive rounds are correlated, so the interval should be wider by "
        f"{numbers.whole_percent(diagnostics.UNDERSTATED)} or more: measure the spread between "
        "processes (replicates=5).",
    ),
    "bimodal": Flag(
        Doubted.SPEEDUP,
        f"the rounds have two levels more than {numbers.whole_percent(diagnostics.MODE_DISTANCE)} "
        "apart, and the median represents only one: check with replicates=5 whether both recur, "
        "and stop other work on the machine.",
    ),
    "baseline_failed": Flag(
        Doubted.SPEEDUP,
        "the baseline fails (baseline_note), so nothing is compared with it: choose another "
        "baseline.mode or baseline.dtype.",
    ),
    "baseline_wrong": Flag(
        Doubted.SPEEDUP,
        "the baseline's own result is off, so nothing is compared with it: choose another "
        "baseline.mode or baseline.dtype.",
    ),
    "baseline_not_in_effect": Flag(
        Doubted.SPEEDUP,
        "the baseline did not do what its name says, so there is no speedup against it: choose "
        "another baseline.mode or baseline.dtype.",
    ),
    "other_operators": Flag(
        Doubted.SPEEDUP,
        "a steady call runs other operators than a call with new arguments (steady_operators), so "
        "what was timed is not what a program's calls do: look for what the model keeps from call "
        "to call.",
    ),
    GROWS: Flag(
        Doubted.SPEEDUP,
        "calls do more work the more were made before (operators, sizes of results, or time), so "
        "times depend on their number and there is no verdict: look for what the model keeps "
        "outside of itself, such as a list of the module that defines it.",
    ),
    "settings_changed": Flag(
        Doubted.LATENCY,
        "forward changes settings of torch in every call (settings_in_calls), such as the number "
        "of threads, so times are not those of the row's settings: set them outside of forward.",
    ),
    "slow_pace": Flag(
        Doubted.SPEEDUP,
        f"a fixed piece of code took more than {SLOW_PACE:g} times the least time known of this "
        "machine (pace), and what slows it down may not slow all modes alike: stop other programs, "
        "let the machine cool down, and measure again.",
    ),
    "no_steady_state": Flag(
        Doubted.LATENCY,
        "warm-up ended before times settled: use a longer one (budget=thorough).",
    ),
    "order_effect": Flag(
        Doubted.LATENCY,
        "times depend on whether the case or the baseline ran first in a round, as under a "
        "periodic load. The effect is taken off the speedup, but not off the latencies: stop that "
        "load, or change the length of a round (another budget), and measure again.",
    ),
    "contended": Flag(
        Doubted.LATENCY,
        "other processes competed for the cores, or a quota throttled this one (cpu_wait_s, "
        "others_cpu_s, cgroup_throttled_s), or others used the GPU (gpu_processes) during the "
        "measurement: stop them, lift the quota, or use fewer threads than there are cores.",
    ),
    "throttled": Flag(
        Doubted.LATENCY,
        "the clock was lowered during the measurement (device_clock_hz fell by more than "
        f"{numbers.whole_percent(CLOCK_FALL)}, or throttle_reasons names a cause): let the device "
        "cool down, or lock a clock within its limits, and measure again.",
    ),
    "queue_full": Flag(
        Doubted.DEVICE,
        "the device queue held fewer calls than a block of device time needs (device_calls of "
        "device_calls_wanted), so device_s is less precise: a mode with fewer launches, such as "
        "cuda-graph, measures it better.",
    ),
    "not_isolable": Flag(
        Doubted.DEVICE,
        "launches could not be queued ahead, so device_s is unknown: the mode waits for the "
        "device within a call, or overfills its queue.",
    ),
    "graph_contradicts_gate": Flag(
        Doubted.DEVICE,
        "device times of plain eager and of eager captured in a graph (mode=cuda-graph), each "
        "relative to the baseline's in its own rounds (device_gain), differ by more than "
        f"{numbers.whole_percent(summary.TOLERANCE)} and the pauses between kernels "
        f"({numbers.duration(GAP_S)} each, which a graph saves) although both run the same "
        "kernels: compare kernels_s of both.",
    ),
    "broken_invariant": Flag(
        Doubted.SPLIT,
        "latency, host, device and pipelined time of the same rounds contradict each other by "
        f"more than {numbers.whole_percent(summary.TOLERANCE)} of the latency, so the split of a "
        "call is unreliable: other work disturbed one of them; measure again.",
    ),
    "split_disagrees": Flag(
        Doubted.SPLIT,
        "the profiler's kernels (kernels_s) differ from latency less dispatch by more than "
        f"{numbers.whole_percent(summary.PROFILE_TOLERANCE)}, both as shares of calls beside "
        "them (checked where dispatch is at most "
        f"{numbers.whole_percent(summary.MOST_DISPATCH)} of the call), so the split "
        "and fusion_gain are unconfirmed: measure again on an idle machine (if profiler_overhead "
        "is far above 1, the profiled calls were slower than the timed ones).",
    ),
    BEATEN: Flag(
        Doubted.ROOFLINE,
        "the work took less than the floor set by the ceilings of the device (roofline_fraction "
        "above 1), so the floor is invalid: data in a cache moves faster than "
        "ceiling_bytes_per_s, or on a CPU dispatch leaves too little of the call for work; use a "
        "larger shape.",
    ),
    "profile_empty": Flag(
        Doubted.PROFILE,
        "the profiler recorded no step, so kernels and idle time are unknown: profile again, with "
        "no other profiler attached to the process or the GPU.",
    ),
    "profile_busy_exceeds_span": Flag(
        Doubted.PROFILE,
        "the profile shows more busy time than the call lasted, so its clocks disagree: ignore "
        "the profile, and measure again.",
    ),
    "profile_lost_events": Flag(
        Doubted.PROFILE,
        "launches in the trace have no kernel there, so kernels and busy time are too low: "
        "profile a smaller shape, which fits the profiler's buffers.",
    ),
    "profile_contradicts_device_time": Flag(
        Doubted.PROFILE,
        "kernels under the profiler and device_s differ by more than "
        f"{numbers.whole_percent(summary.PROFILE_TOLERANCE)}, so idle time is unreliable: let "
        "clocks settle or lock them, and measure again.",
    ),
    LONGER: Flag(
        Doubted.PROFILE,
        f"the profiled call took more than {MOST_LONGER:g}× as long as a timed one "
        "(profiled_span_s, latency_s), so shares of it are not those of a call: end other "
        "programs, and profile again.",
    ),
}


CONDITIONS = {
    "contended": ("other programs competed for the processor", "stop other programs"),
    "throttled": (
        "the clock was lowered because of heat or a power limit",
        "let the machine cool down",
    ),
    "no_steady_state": (
        "times had not settled after the warm-up",
        "choose a longer warm-up (budget=thorough)",
    ),
}
"""Flag -> what happened to the machine, and what to do before measuring again."""

BANNER_COLUMNS = ("status", "budget_rank", "flags", "speedup")
"""The columns that `banner` reads."""

MOST_DISTURBED = 0.5  # of the rows


_TOUCHED = {name: str(flag.touches) for name, flag in FLAGS.items()}


def doubtful_figures(names: Iterable[str]) -> list[str]:
    """Returns what each flag makes doubtful; `speedup` for an unknown flag."""
    return [_TOUCHED.get(name, "speedup") for name in names]


def legend(rows: Sequence[Row]) -> str:
    """Says what `~` before a figure means, and which flags caused it; empty if none did."""
    doubtful = [
        (row, flag)
        for row in rows
        for flag in predicates.flags(row)
        if flag not in predicates.flags(row, "speedup")
    ]
    counts = Counter(flag for _, flag in doubtful)
    if not counts:
        return ""
    named = ", ".join(f"{flag} {numbers.counted(n, 'row', 'rows')}" for flag, n in counts.items())
    wide = any(is_wide(row["speedup"]) for row, _ in doubtful)
    speedups = "; some speedups have wide intervals" if wide else ""
    return f"~ marks a figure that a flag makes approximate ({named}){speedups}"


def banner(rows: Sequence[Row]) -> str:
    """Says what disturbed over MOST_DISTURBED of measured rows and what to do; empty if nothing."""
    measured = [row for row in rows if row["status"] == Status.OK and not predicates.is_smoke(row)]
    counts = Counter(flag for row in measured for flag in predicates.flags(row))
    conditions = [
        condition
        for flag, condition in CONDITIONS.items()
        if counts[flag] > MOST_DISTURBED * len(measured)
    ]
    if not conditions:
        return ""
    happened, remedies = map(phrases.listed, zip(*conditions, strict=True))
    wide = sum(is_wide(row["speedup"]) for row in measured)
    speedups = numbers.counted(wide, "speedup", "speedups")
    intervals = f"Intervals are wide because of it ({speedups}). " if wide else ""
    return (
        f"The machine was disturbed while most rows were measured: {happened}. {intervals}Absolute "
        "times are approximate, and so is a speedup whose two sides it slowed differently. Before "
        f"you measure again, {remedies}."
    )
