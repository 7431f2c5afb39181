"""Latencies of several processes, at the same pace of the machine where that is known.

A virtual machine may run two processes at different speeds. Dividing by the pace takes that out as
far as a call slows down as the fixed Python code does. What remains between two processes of the
same code (their place in memory, about 2 %) is in no interval within a process.
"""

from __future__ import annotations

from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row
from modescope.analysis.rows.flags import CONTENDED
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import of_clock

CLOCKS = ("latency_at_full_pace", "latency")


def has_pace(*rows: Row) -> bool:
    """Whether the latencies of all these rows are known at full pace."""
    return all(row["latency_at_full_pace_ci_low_s"] is not None for row in rows)


def clock(*rows: Row) -> str:
    """The one of CLOCKS by which all these rows can be compared."""
    return CLOCKS[0] if has_pace(*rows) else CLOCKS[1]


def latencies(*rows: Row) -> list[Estimate] | None:
    """The latency of each row, all at full pace or all as measured; None without intervals."""
    chosen = clock(*rows)
    found = [of_clock(row, chosen) for row in rows]
    return None if any(one.low is None for one in found) else found


def is_comparable(*rows: Row) -> bool:
    """Whether rows with different numbers of threads may be compared: no other programs ran.

    Beside other programs two threads are slowed down by another factor than one, as a call waits
    for the thread that is delayed most.
    """
    return not any(CONTENDED in phrases.flags(row) for row in rows)
