"""Names the baseline of rows with the time of its call, for the heading above them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from modescope.analysis.estimates import point
from modescope.analysis.format import numbers, phrases
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped


def against(rows: Sequence[Row]) -> str:
    """Returns `against eager fp32, 2.77 ms`, for rows of one work.

    The time is the median of the baseline's latencies in the processes of all rows with a real
    budget, and preceded by `~` if a flag doubts each of them. Of calls that vary it is that of a
    pass. Several baselines are listed; one that was not timed is named alone.
    """
    known = [row for row in rows if row["baseline_mode"] is not None]
    groups = grouped((phrases.baseline(row), row) for row in known)
    named = [", ".join(filter(None, (name, _time(same)))) for name, same in groups.items()]
    return f"against {phrases.listed(named)}" if named else "no baseline"


def _time(rows: Sequence[Row]) -> str:
    timed = [row for row in rows if row["baseline_latency_s"] is not None]
    timed = [row for row in timed if not predicates.is_smoke(row)] or timed
    if not timed:
        return ""
    doubted = all(predicates.flags(row, "latency") for row in timed)
    seconds = median(point(row["baseline_latency_s"]) or 0.0 for row in timed)
    of_a_pass = " a pass" if timed[0]["calls"] else ""
    return f"{'~' if doubted else ''}{numbers.duration(seconds)}{of_a_pass}"
