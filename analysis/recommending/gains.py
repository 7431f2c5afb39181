"""What a row gains over its baseline: per call, or over as many calls as are asked for."""

from __future__ import annotations

from analysis import first_calls
from analysis.words import Row
from bench.stats import Estimate


def gain(row: Row, calls: float | None, baseline_first_s: float | None) -> Estimate | None:
    """The baseline's total time ÷ this row's, over a first call and `calls` further ones.

    `calls` None: the speedup itself, as the first call then weighs nothing. The interval is that of
    the paired speedup; first calls are single readings and have none. A row is neither credited
    with a first call below the baseline's nor charged with what one reading does not show
    (`first_calls.extra_s`; what may be either is charged). None where a time is unknown.
    """
    speedup = paired(row)
    if calls is None:
        return speedup
    first_s, call_s = row["first_call_s"], row["baseline_latency_s"]
    if first_s is None or call_s is None or baseline_first_s is None:
        return None
    extra_s = first_calls.extra_s(row, baseline_first_s)
    spent_s = first_s if extra_s is None else baseline_first_s + extra_s

    def over_calls(ratio: float) -> float:
        total = baseline_first_s + calls * call_s
        return float(total / (spent_s + calls * call_s / ratio))

    low, high = speedup.low, speedup.high
    assert low is not None
    assert high is not None
    return Estimate(over_calls(speedup.value), over_calls(low), over_calls(high))


def paired(row: Row) -> Estimate:
    """The speedup of a row that has an interval."""
    return Estimate(row["speedup"], row["speedup_ci_low"], row["speedup_ci_high"])
