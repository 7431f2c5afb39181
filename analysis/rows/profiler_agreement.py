"""Compares the split of a call by its clocks with a profile of the same call.

On a CPU the work is latency minus dispatch, compared with the sum of the profiled kernels. On CUDA
it is the device time, compared with the device's busy time in the profile.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
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

    Only checked for calls with little dispatch (`comparable`). `run` has the estimates of its
    clocks as `_latency` and `_dispatch`.
    """
    latency, dispatch, share = run["_latency"], run["_dispatch"], _profiled_share(run)
    if phrases.on_cuda(run) or share is None or not comparable(latency.value, dispatch.value):
        return False
    return bool(abs(share.value - 1) > TOLERANCE)


def comparable(latency_s: float, dispatch_s: float) -> bool:
    """Whether a CPU call has so little dispatch that its kernels should equal its work."""
    return dispatch_s <= latency_s * MOST_DISPATCH


def checked(row: Row) -> bool:
    """Whether a derived row's clocks were compared with its profile."""
    if row["residual_s"] is None or not row["work_s"]:
        return False
    return phrases.on_cuda(row) or comparable(row["latency_s"], row["dispatch_s"])


def _profiled_share(run: Row) -> Estimate | None:
    """The work by the profiler ÷ the work by the clocks of the same process."""
    on_cuda = phrases.on_cuda(run)
    latency, dispatch, device = run["_latency"], run["_dispatch"], run["_device"]
    if None in ((device,) if on_cuda else (latency, dispatch)):
        return None
    work_s = device.value if on_cuda else latency.value - dispatch.value
    return _share(run["device_busy_s" if on_cuda else "kernels_s"], work_s)


def _busy_share(run: Row) -> Estimate | None:
    """The share of a call in which a GPU is busy; None on a CPU.

    Busy time comes from the profiler, which does not slow the device; latency from the clock,
    because the profiler slows the host.
    """
    if run["_latency"] is None or not phrases.on_cuda(run):
        return None
    return _share(run["device_busy_s"], run["_latency"].value)


def _share(part_s: float | None, whole_s: float) -> Estimate | None:
    if part_s is None or whole_s <= 0:
        return None
    return Estimate(part_s / whole_s, None, None)


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
