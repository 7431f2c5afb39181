"""The split of a call by its clocks, held against what the profiler saw of the same call.

On a CPU work is what dispatch leaves of the latency, and the profiler adds up the kernels. On CUDA
work is the device time, and the profiler says how long of it something ran.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from analysis import words
from analysis.words import Row
from bench.stats import Estimate

TOLERANCE = 0.15

MOST_DISPATCH = 1 / 6
"""Share of dispatch in a call up to which kernels under the profiler compare with its work.

The profiler times a CPU's kernel from the operator's entry on. So a part of what an empty batch
shows as dispatch (checks, allocation of the result) is in the kernel's time as well, and the
profiler's own cost for operators inside it: together four to seven tenths of dispatch, as seen over
MLP, transformer block and pointwise chains of 27 us to 2 ms. Seven tenths of a sixth are 14 % of
the other five sixths; with more dispatch the two disagree although both are right, so there the
split is not checked, be the call bound by work or not. The profiler's cost is not taken off by
`profiler_overhead`, because most of it lies between kernels.
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
    latency, dispatch, seen = run["_latency"], run["_dispatch"], _seen(run)
    if words.on_cuda(run) or seen is None or not comparable(latency.value, dispatch.value):
        return False
    return bool(abs(seen.value - 1) > TOLERANCE)


def comparable(latency_s: float, dispatch_s: float) -> bool:
    """Whether so little of a call on a CPU is dispatch that its kernels should be its work."""
    return dispatch_s <= latency_s * MOST_DISPATCH


def checked(row: Row) -> bool:
    """Whether the profiler was held against the clocks of a derived row."""
    if row["residual_s"] is None or not row["work_s"]:
        return False
    return words.on_cuda(row) or comparable(row["latency_s"], row["dispatch_s"])


def _seen(run: Row) -> Estimate | None:
    """How large is what the profiler saw of the work, as a share of the work by the clocks?

    `run` is one process: its kernels belong to its own clocks.
    """
    on_cuda = words.on_cuda(run)
    latency, dispatch, device = run["_latency"], run["_dispatch"], run["_device"]
    if None in ((device,) if on_cuda else (latency, dispatch)):
        return None
    work_s = device.value if on_cuda else latency.value - dispatch.value
    return _share(run["device_busy_s" if on_cuda else "kernels_s"], work_s)


def _busy(run: Row) -> Estimate | None:
    """For which share of a call does a GPU have something to do? None on a CPU.

    Busy time is the profiler's, which leaves the device alone; the latency is that of the clock,
    because the profiler slows the host.
    """
    if run["_latency"] is None or not words.on_cuda(run):
        return None
    return _share(run["device_busy_s"], run["_latency"].value)


def _share(part_s: float | None, whole_s: float) -> Estimate | None:
    if part_s is None or whole_s <= 0:
        return None
    return Estimate(part_s / whole_s, None, None)


SHARES: dict[str, Callable[[Row], Estimate | None]] = {"_seen": _seen, "_busy": _busy}
"""What each process is asked besides its clocks; the answers of a case's processes are combined."""


def residual_s(rows: pd.DataFrame) -> pd.Series:
    """What of the work did the profiler not see? Below 0 where it saw more."""
    return rows["work_s"] * (1 - _relied_on(rows, "_seen"))


def device_idle_fraction(rows: pd.DataFrame) -> pd.Series:
    """For which part of a call does a GPU have nothing to do?"""
    return (1 - _relied_on(rows, "_busy")).clip(lower=0)


def _relied_on(rows: pd.DataFrame, share: str) -> pd.Series:
    """The values of a share, null where a flag says that a profile is not to be relied on."""
    told = [
        None if known is None or not DOUBTS.isdisjoint(flags) else known.value
        for known, flags in zip(rows[share], rows["_flags"], strict=True)
    ]
    return pd.Series(told, index=rows.index, dtype="float64")
