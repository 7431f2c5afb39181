"""What new processes do from their start to the first right result."""

from __future__ import annotations

import json
from statistics import fmean

from modescope.analysis.rows.type import Row
from modescope.bench.records.columns.starting import PHASES

REST = "rest"
"""The phase that nothing explains."""


def phases_s(row: Row) -> dict[str, float]:
    """Returns the seconds of each phase of a row's start: means over its processes.

    REST also has what the phases leave of `start_s`. Empty without starts.
    """
    start, told = row["start_s"], row["start_phases_s"]
    if start is None or told is None:
        return {}
    processes = json.loads(told)
    known = {name: fmean(process.get(name, 0.0) for process in processes) for name in PHASES}
    return known | {REST: known[REST] + max(0.0, start.value - sum(known.values()))}
