"""Ratios of two clocks within a round, and the machine's pace over the rounds.

Each ratio relates two times of the same round, so the machine's pace cancels in it, as it does in
the speedup. Medians of clocks that were taken separately would compare times at different paces.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from modescope.analysis.format.phrases import Row
from modescope.bench.stats import estimates
from modescope.bench.stats.conditions import pace_ends_s
from modescope.bench.stats.estimates import Estimate

# statistic -> the clocks above and below the line; their columns are <clock>_rounds_s
RATIOS = {
    "_host_share": ("host", "clocks_latency"),
    "_device_share": ("device", "clocks_latency"),
    "_pipelined_share": ("pipelined", "clocks_latency"),
    "_dispatch_share": ("dispatch", "clocks_latency"),
    "_host_per_device": ("host", "device"),
    "_device_gain": ("baseline_device", "device"),
    "_dispatch_ratio": ("baseline_dispatch", "dispatch"),
    "_forward_share": ("forward", "parts_latency"),
    "_backward_share": ("backward", "parts_latency"),
    "_optimizer_share": ("optimizer", "parts_latency"),
    "_scaler_share": ("scaler", "parts_latency"),
    "_kernels_share": ("profiled_kernels", "profiled_latency"),
    "_paced_latency": ("latency", "pace"),
}


def _ratio(run: Row, top: str, bottom: str) -> Estimate | None:
    return estimates.ratio(run[f"{top}_rounds_s"], run[f"{bottom}_rounds_s"])


def _pace_fastest(run: Row) -> Estimate | None:
    """The time of the fixed code in the fastest rounds, or in an earlier run here, seconds."""
    ends = pace_ends_s(run["pace_rounds_s"])
    if ends is None:
        return None
    known_s = run["best_pace_s"]
    return Estimate(ends[0] if pd.isna(known_s) else min(ends[0], known_s), None, None)


def _pace_typical(run: Row) -> Estimate | None:
    """The median time of the fixed code over the rounds, seconds."""
    return estimates.median_interval(run["pace_rounds_s"])


def _pace_slowest(run: Row) -> Estimate | None:
    """The machine's speed in its slowest rounds as a share of that in its fastest."""
    ends = pace_ends_s(run["pace_rounds_s"])
    return None if ends is None else Estimate(ends[0] / ends[1], None, None)


STATISTICS: dict[str, Callable[[Row], Estimate | None]] = {
    **{name: partial(_ratio, top=top, bottom=bottom) for name, (top, bottom) in RATIOS.items()},
    "_pace_fastest": _pace_fastest,
    "_pace_typical": _pace_typical,
    "_pace_slowest": _pace_slowest,
}
"""Statistics of a process, from the rounds that it stores."""
