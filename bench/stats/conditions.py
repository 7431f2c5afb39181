"""Rules on a row's columns: was its measurement disturbed? Unknown counts as undisturbed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from modescope.bench.records.columns import Contention
from modescope.bench.stats import estimates
from modescope.bench.stats.estimates import Samples

WAIT_SHARE = 0.01
"""Share of the window that the measuring thread may wait for a core, or be stopped by a quota."""

OTHERS_SHARE = 0.05
"""Share of all cores that others may use. More of it costs caches, memory bandwidth and clock."""

OTHERS_FLOOR_CORES = 0.1
"""Others may always use this much of one core: on few cores, housekeeping alone takes it."""

IDLE_UNIT_S = 0.01
"""Unit of a core's idle time in /proc/stat: the CPU time of others is uncertain by as much."""

CLOCK_FALL = 0.03
"""The fall of the clock that counts as throttling: more than four steps of boost clocks, which are
15 MHz (nvidia-smi -q -d SUPPORTED_CLOCKS), 0.75 % of 2 GHz. Readings are good to 0.1 %."""

PACE_ENDS = (0.05, 0.95)
"""Quantiles of the paces of a run that count as its fastest and slowest: single rounds may be
interrupted, or read too short."""

SLOW_PACE = 1.25
"""Times the machine's best pace above which a row is flagged. At 1.5 times it a speedup was 1.13
that was 0.90 in other processes and in an interleaved comparison."""


def pace_ends_s(paces_s: Samples) -> tuple[float, float] | None:
    """The fastest and the slowest pace of a run; None where a pace is no duration."""
    known_s = estimates.finite(paces_s)
    if known_s is None or known_s.min() <= 0:
        return None
    fast_s, slow_s = np.quantile(known_s, PACE_ENDS)
    return float(fast_s), float(slow_s)


def contended(watch: Contention, gpu_processes: int | None = None) -> bool:
    """Whether others used enough of the cores, or of the GPU, to affect the measurement.

    Context switches decide nothing, as every system has some; a long interruption shows as waiting.
    """
    if gpu_processes:
        return True
    if not watch.watched_s:
        return False
    waits_s = (watch.cpu_wait_s or 0.0, watch.cgroup_throttled_s or 0.0)
    cores = watch.machine_cores or 0
    surely_s = (watch.others_cpu_s or 0.0) - IDLE_UNIT_S * cores
    others_cores = surely_s / watch.watched_s
    allowed_cores = max(OTHERS_SHARE * cores, OTHERS_FLOOR_CORES)
    return max(waits_s) / watch.watched_s > WAIT_SHARE or others_cores > allowed_cores


def throttled(
    device_clock_hz: Sequence[float] | None, throttle_reasons: Sequence[str] | None
) -> bool:
    """Whether the device reported a reason for slowing down, or its clock fell.

    A reading is compared with the highest one before it, as the first of an idle GPU may be low.
    """
    if throttle_reasons is not None and len(throttle_reasons):
        return True
    readings = [] if device_clock_hz is None else list(device_clock_hz)
    highest = accumulate(readings, max)
    return any(now < (1 - CLOCK_FALL) * high for now, high in zip(readings, highest, strict=True))
