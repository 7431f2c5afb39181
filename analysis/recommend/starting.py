"""What a mode gains over first calls, or over processes that start and then make calls."""

from __future__ import annotations

from modescope.analysis.derive import formulas
from modescope.analysis.estimates import high, low, point
from modescope.analysis.format import numbers, phrases
from modescope.analysis.recommend.constraints import Wishes
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import Estimate


def gain(row: Row, wishes: Wishes, baseline: Row | None) -> Estimate | None:
    """Returns the baseline's total time ÷ the row's, over the calls or starts of `wishes`.

    Without either it is the speedup, which ignores first calls. None if a time is unknown.
    `baseline`: the baseline's own run, if there is one.
    """
    if wishes.calls is None:
        return row["speedup"]
    if wishes.starts is None:
        return of_calls(row, wishes.calls, baseline)
    return of_starts(row, wishes.starts, wishes.calls)


def of_calls(row: Row, calls: float, baseline: Row | None) -> Estimate | None:
    """Returns the baseline's total time ÷ the row's, over a first call and `calls` further calls.

    None if a time is unknown. The first call of a `baseline` that compiles is that of its own run,
    because in the row's process the compiler cache is already warm. The interval comes from the
    paired speedup alone, because first calls are single readings. The row's first call counts as
    equal to the baseline's if it is shorter, or if a single reading cannot show the difference
    (`formulas.extra_s`); if that is undecided, it counts as measured.
    """
    speedup = row["speedup"]
    first_s, call_s = row["first_call_s"], point(row["baseline_latency_s"])
    baseline_first_s = formulas.baseline_first_s(row)
    if baseline_first_s is None and baseline is not None:
        baseline_first_s = baseline["first_call_s"]
    if speedup is None or speedup.low is None:
        return speedup
    if first_s is None or call_s is None or baseline_first_s is None:
        return None
    calls /= predicates.calls_of_a_step(row)
    extra_s = formulas.extra_s(row, baseline_first_s)
    spent_s = first_s if extra_s is None else baseline_first_s + extra_s

    def over_calls(ratio: float) -> float:
        return float((baseline_first_s + calls * call_s) / (spent_s + calls * call_s / ratio))

    return Estimate(*map(over_calls, (speedup.value, low(speedup), high(speedup))))


def of_starts(row: Row, processes: int, calls: float) -> Estimate | None:
    """Returns the baseline's total time ÷ the row's, over `processes` that each make `calls` calls.

    The calls follow a first one, which is part of a start. The row's total also has the process
    that fills its cache or saves its code. Starts and calls are pairs of the row's own processes.
    The ends of the interval are the worst cases of both. None unless starts have an interval.
    """
    speedup, start, later = row["speedup"], row["start_s"], row["start_ratio"]
    call_s = row["baseline_latency_s"]
    if speedup is None or call_s is None or start is None or later is None or later.low is None:
        return None
    baseline_s, calls_s = baseline_start_s(row), calls * call_s.value
    whole_s, fill_s = processes * (baseline_s + calls_s), row["fill_s"] or 0.0

    def over(speedup: float, ratio: float) -> float:
        return whole_s / (fill_s + processes * (baseline_s * ratio + calls_s / speedup))

    return Estimate(
        over(speedup.value, later.value),
        over(low(speedup), high(later)),
        over(high(speedup), low(later)),
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
    if wishes.starts == 1:
        return f" for a process of {calls}"
    return f" for {wishes.starts:,} processes of {calls} each"


def baseline_start_s(row: Row) -> float:
    """Returns how long processes in the baseline's mode took that took turns with the row's."""
    return required(row["start_s"]).value / required(row["start_ratio"]).value
