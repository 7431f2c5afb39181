"""The split of a call by its clocks, held against what the profiler saw of the same call.

On a CPU work is what dispatch leaves of the latency, and the profiler adds up the kernels. On CUDA
work is the device time, and the profiler says how long of it something ran.
"""

from __future__ import annotations

import pandas as pd

from analysis import words
from analysis.words import Row

TOLERANCE = 0.15

MOST_DISPATCH = 1 / 6
"""Share of dispatch in a call up to which kernels under the profiler compare with its work.

The profiler times a CPU's kernel from the operator's entry on. So a part of what an empty batch
shows as dispatch (checks, allocation of the result) is in the kernel's time as well, and the
profiler's own cost for operators inside it: together four to seven tenths of dispatch, as seen over
MLP, transformer block and pointwise chains of 27 us to 2 ms. Seven tenths of a sixth are 14 % of
the other five sixths; with more dispatch the two disagree although both are right. The profiler's
cost is not taken off by `profiler_overhead`, because most of it lies between kernels.
"""

# Flags of a profile that is not to be relied on (bench.profiling.capture).
DOUBTS = {
    "profile_empty",
    "profile_busy_exceeds_span",
    "profile_lost_events",
    "profile_contradicts_device_time",
}


def disagrees(run: Row) -> bool:
    """Whether the two ways to know the work of a call on a CPU are too far apart.

    Asked of calls that are mostly work alone: elsewhere they need not agree. `run` has the
    estimates of its clocks as `_latency` and `_dispatch`.
    """
    latency, dispatch, kernels_s = run["_latency"], run["_dispatch"], run["kernels_s"]
    if words.on_cuda(run) or None in (latency, dispatch, kernels_s):
        return False
    if not comparable(latency.value, dispatch.value):
        return False
    return bool(abs(kernels_s / (latency.value - dispatch.value) - 1) > TOLERANCE)


def comparable(latency_s: float, dispatch_s: float) -> bool:
    """Whether so little of a call on a CPU is dispatch that its kernels should be its work."""
    return dispatch_s <= latency_s * MOST_DISPATCH


def residual_s(rows: pd.DataFrame) -> pd.Series:
    """What of the work did the profiler not see? Below 0 where it saw more."""
    seen_s = rows["device_busy_s"].where(_on_cuda(rows), rows["kernels_s"])
    told: pd.Series = rows["work_s"] - seen_s.where(_relied_on(rows))
    return told.astype("float64")


def device_idle_fraction(rows: pd.DataFrame) -> pd.Series:
    """For which part of a call does a GPU have nothing to do?

    Busy time is the profiler's, which leaves the device alone; the latency is that of the clock,
    because the profiler slows the host.
    """
    idle = (1 - rows["device_busy_s"] / rows["latency_s"]).clip(lower=0)
    return idle.where(_on_cuda(rows) & _relied_on(rows)).astype("float64")


def _relied_on(rows: pd.DataFrame) -> pd.Series:
    told = [DOUBTS.isdisjoint(flags) for flags in rows["_flags"]]
    return pd.Series(told, index=rows.index, dtype="bool")


def _on_cuda(rows: pd.DataFrame) -> pd.Series:
    told = [words.on_cuda(row) for row in words.as_rows(rows[["device"]])]
    return pd.Series(told, index=rows.index, dtype="bool")
