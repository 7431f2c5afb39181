"""The gain of a row over its baseline: per call, or with the first call spread over N calls."""

from __future__ import annotations

from modescope.analysis.derive import formulas
from modescope.analysis.format.phrases import Row
from modescope.bench.stats import intervals
from modescope.bench.stats.estimates import Estimate


def gain(row: Row, calls: float | None, baseline_first_s: float | None) -> Estimate | None:
    """The baseline's total time ÷ this row's, over a first call and `calls` further ones.

    `calls` None: the speedup itself; first calls are ignored. The interval comes from the paired
    speedup alone, because first calls are single readings. A first call shorter than the baseline's
    counts as equal, and so does a difference that one reading cannot show (`formulas.extra_s`);
    where that is undecided, the measured first call counts. None where a time is unknown.
    """
    speedup = intervals.of_columns(row, "speedup")
    if calls is None:
        return speedup
    first_s, call_s = row["first_call_s"], row["baseline_latency_s"]
    if first_s is None or call_s is None or baseline_first_s is None:
        return None
    extra_s = formulas.extra_s(row, baseline_first_s)
    spent_s = first_s if extra_s is None else baseline_first_s + extra_s

    def over_calls(ratio: float) -> float:
        total = baseline_first_s + calls * call_s
        return float(total / (spent_s + calls * call_s / ratio))

    low, high = speedup.low, speedup.high
    assert low is not None
    assert high is not None
    return Estimate(over_calls(speedup.value), over_calls(low), over_calls(high))
