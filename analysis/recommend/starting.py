"""What processes gain that start and then make calls, and what they start with."""

from __future__ import annotations

from modescope.analysis.estimates import high, low
from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import Estimate


def gain(row: Row, processes: int, calls: float) -> Estimate | None:
    """Returns the baseline's total time ÷ the row's, over `processes` that each make `calls` calls.

    The calls follow a first one, which is part of a start. The row's total also has the process
    that fills its cache or saves its code. Starts and calls are pairs of the row's own processes.
    The ends of the interval are the worst cases of both. None unless starts have an interval.
    """
    speedup, start, extra = row["speedup"], row["start_s"], row["start_extra_s"]
    call_s = row["baseline_latency_s"]
    if speedup is None or call_s is None or start is None or extra is None or extra.low is None:
        return None
    baseline_s, calls_s = start.value - extra.value, calls * call_s.value
    whole_s, fill_s = processes * (baseline_s + calls_s), row["fill_s"] or 0.0

    def over(ratio: float, more_s: float) -> float:
        start_s = max(0.0, baseline_s + more_s)
        return whole_s / (fill_s + processes * (start_s + calls_s / ratio))

    return Estimate(
        over(speedup.value, extra.value),
        over(low(speedup), high(extra)),
        over(high(speedup), low(extra)),
    )


def named(row: Row, wishes: Wishes) -> str:
    """Returns the name of the row's mode, with what processes start with if that is asked for."""
    mode = phrases.mode(row)
    own = wishes.starts is not None and predicates.has_cache(row)
    return f"{mode} with compile_cache={row['compile_cache']}" if own else mode


def span(wishes: Wishes) -> str:
    """Returns over what first calls are spread: ` over 10,000 calls`; empty without a wish.

    With starts: ` for 20 processes of 10,000 calls each`.
    """
    if wishes.calls is None:
        return ""
    calls = f"{numbers.calls(wishes.calls)} calls"
    if wishes.starts is None:
        return f" over {calls}"
    return f" for {numbers.counted(wishes.starts, 'process', 'processes')} of {calls} each"


def baseline_start_s(row: Row) -> float:
    """Returns how long processes in the baseline's mode took that took turns with the row's."""
    return required(row["start_s"]).value - required(row["start_extra_s"]).value
