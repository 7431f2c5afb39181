"""Compares the split of a call by its clocks with a profile of the same call.

On a CPU the work is the share of a call that is not dispatch, by the clocks. It is compared with
the share of a call that kernels take, by the profiler. Each share is paired: dispatch with the
latency of its round, kernels with the latency of the unrecorded calls right before and after the
profiled one (`bench.case.profiler.turns`). So neither the machine's pace nor what the profiler
costs between kernels enters. Of compiled code both calls are of the code compiled for the profile.

On CUDA the work is the device time, compared with the device's busy time in the profile. These two
cannot be paired: they come from different passes, and the pace is that of the host, which says
nothing about the device's clock.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows.intervals import ONE, difference, ends, quotient
from modescope.analysis.rows.select import per_row
from modescope.bench.stats.estimates import Estimate

TOLERANCE = 0.15

MOST_DISPATCH = 1 / 6
"""Largest share of dispatch in a call at which profiled kernels are comparable with its work.

The profiler times a CPU kernel from the operator's entry. Its time thus includes a part of what an
empty batch measures as dispatch (checks, allocation of the result), and the profiler's own cost for
operators inside it: together 40 to 70 % of dispatch, as measured on MLP, transformer block and
pointwise chains of 27 us to 2 ms. 70 % of one sixth is 14 % of the other five sixths; with more
dispatch both may be right and still disagree, so the split is not checked there. The profiler's
cost is not subtracted by `profiler_overhead`, because most of it lies between kernels.
"""

# Flags of an unreliable profile (bench.case.profiler.capture).
DOUBTS = {
    "profile_empty",
    "profile_busy_exceeds_span",
    "profile_lost_events",
    "profile_contradicts_device_time",
}


def disagrees(run: Row) -> bool:
    """Whether clocks and profile disagree about the work of a CPU call.

    They do if the whole interval of their quotient lies beyond TOLERANCE; where few profiled calls
    give no interval, its value decides. Only checked for calls with little dispatch
    (MOST_DISPATCH). `run` has the statistics `_kernels_share` and `_dispatch_share`.
    """
    dispatch, share = run["_dispatch_share"], _profiled_share(run)
    if phrases.on_cuda(run) or dispatch is None or share is None:
        return False
    low, high = ends(share)
    return bool(dispatch.value <= MOST_DISPATCH and max(low - 1, 1 - high) > TOLERANCE)


def checked(row: Row) -> bool:
    """Whether a derived row's clocks were compared with its profile."""
    if row["residual_s"] is None or not row["work_s"]:
        return False
    return phrases.on_cuda(row) or bool(row["dispatch_share"] <= MOST_DISPATCH)


def _profiled_share(run: Row) -> Estimate | None:
    """The work by the profiler ÷ the work by the clocks of the same process.

    The interval is the worst case of those of the two shares.
    """
    if phrases.on_cuda(run):
        return _share(run["device_busy_s"], run["_device"])
    return quotient(run["_kernels_share"], difference(ONE, run["_dispatch_share"]))


def _busy_share(run: Row) -> Estimate | None:
    """The share of a call in which a GPU is busy; None on a CPU.

    Busy time comes from the profiler, which does not slow the device; latency from the clock,
    because the profiler slows the host. Busy time is one value, so its share of the median latency
    is the median of its shares of the rounds; it is not paired with any of them.
    """
    return _share(run["device_busy_s"], run["_latency"]) if phrases.on_cuda(run) else None


def _share(part: float | None, whole: Estimate | None) -> Estimate | None:
    if part is None or whole is None or whole.value <= 0:
        return None
    return Estimate(part / whole.value, None, None)


SHARES: dict[str, Callable[[Row], Estimate | None]] = {
    "_profiled": _profiled_share,
    "_busy": _busy_share,
}
"""Statistics of a process that need the estimates of its clocks."""


def residual_s(rows: pd.DataFrame) -> pd.Series:
    """The work that is not in the profile; negative where the profile has more."""
    return rows["work_s"] * (1 - _reliable(rows, "_profiled"))


def device_idle_fraction(rows: pd.DataFrame) -> pd.Series:
    """The share of a call in which a GPU is idle."""
    return (1 - _reliable(rows, "_busy")).clip(lower=0)


def _reliable(rows: pd.DataFrame, share: str) -> pd.Series:
    """The values of a share, null where a flag marks the profile as unreliable."""
    values = per_row(rows, (estimate and estimate.value for estimate in rows[share]))
    doubtful = (not DOUBTS.isdisjoint(flags) for flags in rows["_flags"])
    return values.mask(per_row(rows, doubtful, "bool"))
