"""What new processes do from their start to the first right result."""

from __future__ import annotations

import json
from statistics import median

from modescope.analysis.rows.type import Row
from modescope.bench.records.starts import PHASES

REST = "rest"
"""The phase that nothing explains."""


def phases_s(row: Row) -> dict[str, float]:
    """Returns the seconds of each phase of a row's start: medians over its processes.

    What they leave of `start_s` is REST, as is what the processes cannot explain themselves. Empty
    without starts.
    """
    start, told = row["start_s"], row["start_phases_s"]
    if start is None or told is None:
        return {}
    processes = json.loads(told)
    known = {
        name: median(process.get(name, 0.0) for process in processes)
        for name in PHASES
        if name != REST
    }
    return known | {REST: max(0.0, start.value - sum(known.values()))}
