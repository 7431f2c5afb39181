"""Latencies corrected for the pace of the machine, and what more threads gain.

The pace is the speed of the machine, measured by a fixed piece of Python code. A virtual machine
may run two processes at different speeds. The pace removes the difference, if a call slows down as
much as the fixed code does. Two processes of the same code still differ by about 2 % (by their
place in memory), which no interval within a process shows.

A speedup does not show what more threads gain, because the baseline has as many threads as the
case. Two numbers of threads are two processes, which have no common rounds either: their latencies
are compared at equal pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from modescope.analysis.derive.flags import CONTENDED
from modescope.analysis.derive.select import THREADED, codes, per_row, trusted, values_of
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, grouped
from modescope.bench.stats import estimates
from modescope.bench.stats.diagnostics import SLOW_PACE
from modescope.bench.stats.estimates import Estimate

_NEEDED = (*THREADED, "threads", "flags", "latency_at_full_pace_s", "latency_s")


def latency_at_full_pace_s(rows: pd.DataFrame) -> pd.Series:
    """Returns for each row an Estimate of its latency if every round had run at the best pace.

    The pace of a round is the speed at which the machine ran a fixed piece of code in it; the best
    is that of any row in the environment. None on CUDA: the pace is the host's, and the time of a
    call may be the device's.
    """
    every = zip(rows["_on_cuda"], rows["paced_latency"], rows["_best_pace_s"], strict=True)
    paced = (
        None if on_cuda else estimates.product(latency, estimates.exactly(best_s))
        for on_cuda, latency, best_s in every
    )
    return per_row(rows, paced, "object")


def pace(rows: pd.DataFrame) -> pd.Series:
    """Returns the machine's typical speed during each row ÷ its best in rows of its environment."""
    found: pd.Series = rows["_best_pace_s"] / rows["pace_typical_s"]
    return found


def best_pace_s(rows: pd.DataFrame) -> pd.Series:
    """Returns the least time (s) of the fixed code in any row of the same environment.

    The fixed code is timed beside the modes of every row, only to tell how fast the machine is.
    """
    best: pd.Series = rows.groupby("environment_id")["pace_fastest_s"].transform("min")
    return best


def is_slow(rows: pd.DataFrame) -> pd.Series:
    """Returns whether the machine typically took over SLOW_PACE times its best in each row."""
    return (pace(rows) < 1 / SLOW_PACE) & (rows["budget_rank"] > 0)


def has_pace(*rows: Row) -> bool:
    """Whether the latency at full pace is known for all these rows."""
    return _with_intervals(row["latency_at_full_pace_s"] for row in rows) is not None


def latencies(*rows: Row) -> list[Estimate] | None:
    """Returns the latency of each row: at full pace if that is known for all, else as measured.

    None if one of these latencies has no interval.
    """
    at_full_pace = _with_intervals(row["latency_at_full_pace_s"] for row in rows)
    return at_full_pace or _with_intervals(row["latency_s"] for row in rows)


def _with_intervals(found: Iterable[Estimate | None]) -> list[Estimate] | None:
    """Returns these estimates; None if one of them is unknown or has no interval."""
    every = list(found)
    known = [estimate for estimate in every if estimate is not None and estimate.low is not None]
    return known if len(known) == len(every) else None


def is_comparable(*rows: Row) -> bool:
    """Whether these rows may be compared although their numbers of threads differ.

    They may not if other programs ran during one of them (flag `contended`). That slows two threads
    down by another factor than one, because a call waits for the thread that is delayed most.
    """
    return not any(CONTENDED in predicates.flags(row) for row in rows)


def threads_gain(rows: pd.DataFrame) -> pd.Series:
    """Returns for each trusted row its latency with the fewest threads ÷ its own, as an Estimate.

    None for the rows with the fewest threads, and if it is unknown.
    """
    return per_row(rows, map(dict(_gains(rows)).get, rows.index), "object")


def _gains(rows: pd.DataFrame) -> Iterator[tuple[object, Estimate | None]]:
    good = trusted(rows)[list(_NEEDED)]
    good = good[good.groupby(codes(good, THREADED))["threads"].transform("nunique") > 1]
    cases = zip(good.index, as_rows(good), strict=True)
    for members in grouped(
        (values_of(row, THREADED), (index, row)) for index, row in cases
    ).values():
        _, fewest = min(members, key=lambda pair: pair[1]["threads"])
        for index, row in members:
            if row["threads"] > fewest["threads"]:
                both = latencies(fewest, row) if is_comparable(row, fewest) else None
                yield index, estimates.quotient(*both) if both else None
