"""Reads the intervals of a profiler's trace, and writes a trace as a file of limited size.

The format is Chrome's trace events as Kineto writes them (libkineto/src/output_json.cpp): "ph" is
"X" for an interval, "ts" and "dur" are microseconds with three decimals, "cat" is the category and
"args" holds "correlation", which a launch shares with the work it caused (CuptiActivity.cpp).
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modescope.bench.records.files import atomic_write

OPERATIONS = ("cpu_op",)
RANGES = ("user_annotation",)
LAUNCHES = ("cuda_runtime", "cuda_driver")
KERNELS, COPIES, FILLS = "kernel", "gpu_memcpy", "gpu_memset"
DEVICE_WORK = (KERNELS, COPIES, FILLS)

CATEGORIES = frozenset((*OPERATIONS, *RANGES, *LAUNCHES, *DEVICE_WORK))
"""The categories that are read. `gpu_user_annotation` repeats ranges, others describe the trace."""

STEP = "modescope.step"
"""The name of the range around each profiled step."""


@dataclass(frozen=True, slots=True)
class Event:
    """An interval of a trace, in integer nanoseconds so that sums and comparisons are exact.

    `correlation` is the same number for a launch and the work that it caused on a GPU; else None.
    """

    category: str
    name: str
    thread: int | str
    start_ns: int
    end_ns: int
    correlation: int | None = None

    @property
    def length_ns(self) -> int:
        """The time from start to end."""
        return self.end_ns - self.start_ns


Trace = dict[str, Any]


def intervals(trace: Trace) -> list[Event]:
    """Returns the intervals whose category is in `CATEGORIES`, in file order.

    Leaves out intervals that were still running when the profiler stopped (Kineto ends them with
    the recording, and adds "finished": false), and dropped records, which start at 0 and have no
    length.
    """
    return [
        _event(raw)
        for raw in trace["traceEvents"]
        if raw["ph"] == "X"
        and raw.get("cat") in CATEGORIES
        and raw.get("args", {}).get("finished") is not False
        and (raw["ts"] or raw["dur"])
    ]


def _event(raw: dict[str, Any]) -> Event:
    start_ns = round(raw["ts"] * 1000)
    return Event(
        raw["cat"],
        raw["name"],
        raw["tid"],
        start_ns,
        start_ns + round(raw["dur"] * 1000),
        raw.get("args", {}).get("correlation") or None,  # 0: it caused no work
    )


def save(trace: Trace, path: Path, max_bytes: int, place: int, most: int) -> int:
    """Writes the step at index `place` and its neighbours to `path`, a .json.gz.

    It writes `most` steps, or as many as there are and fit into `max_bytes`, and returns their
    number. If none fits, there is no file. Each step must have been waited for, so that its work
    does not run in the next. May raise OSError.
    """
    starts_us = sorted(
        event["ts"]
        for event in trace["traceEvents"]
        if event.get("cat") in RANGES and event.get("name") == STEP
    )
    steps = min(most, len(starts_us))
    while steps > 0:
        text = json.dumps(_part(trace, starts_us, place, steps), separators=(",", ":"))
        data = gzip.compress(text.encode(), mtime=0)
        if len(data) <= max_bytes:
            with atomic_write(path) as partial:
                partial.write_bytes(data)
            return steps
        steps = min(steps - 1, int(steps * max_bytes / len(data)))
    return 0


def _part(trace: Trace, starts_us: Sequence[float], place: int, steps: int) -> Trace:
    """Cuts `trace` to `steps` steps around the one at `place`. Names of threads stay.

    Events before the first step of the whole trace belong to the first step. Events after the last
    step belong to the last step.
    """
    first = max(0, min(place - steps // 2, len(starts_us) - steps))
    begin_us = starts_us[first] if first else -math.inf
    end_us = starts_us[first + steps] if first + steps < len(starts_us) else math.inf
    events = trace["traceEvents"]
    kept = [
        each for each in events if each.get("ph") == "M" or begin_us <= each.get("ts", 0) < end_us
    ]
    return {**trace, "traceEvents": kept}
