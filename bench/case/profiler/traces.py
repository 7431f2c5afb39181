"""Reads the intervals of a profiler's trace, and writes a trace as a file of limited size.

The format is Chrome's trace events as Kineto writes them (libkineto/src/output_json.cpp): "ph" is
"X" for an interval, "ts" and "dur" are microseconds with three decimals, "cat" is the category and
"args" holds "correlation", which a launch shares with the work it caused (CuptiActivity.cpp).
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

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

UNREAD_PHASES = frozenset("BEbenstfiPC")
"""Halves of intervals, async events, flow arrows, instants and counters. Kineto's arrows from
launches to work ("ac2g") repeat the correlation; "M" names processes and threads."""


@dataclass(frozen=True, slots=True)
class Event:
    """One interval, in integer nanoseconds so that sums and comparisons are exact."""

    category: str
    name: str
    process: str
    thread: str
    start_ns: int
    end_ns: int
    correlation: int | None = None

    @property
    def length_ns(self) -> int:
        """From start to end."""
        return self.end_ns - self.start_ns


Trace = dict[str, Any]


def load(source: Path | str) -> Trace:
    """The trace in a .json or .json.gz file. Raises OSError; ValueError if it is incomplete."""
    path = Path(source)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            trace = json.load(file)
    except (EOFError, zlib.error, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a complete JSON file ({error}); profile the case again"
        ) from error
    if not (isinstance(trace, dict) and isinstance(trace.get("traceEvents"), list)):
        raise ValueError(f"{path} is not a trace: it must be an object with a list traceEvents")
    return trace


def intervals(trace: Trace) -> tuple[list[Event], Counter[str]]:
    """The intervals of `CATEGORIES` in file order, and how many events were left out, by reason.

    Reasons: `unfinished` (still running when the profiler stopped: Kineto writes the end of the
    recording as their end, with "finished": false), `broken` (start or length missing, negative, or
    both zero, as in dropped activity records), `unread` (of `UNREAD_PHASES`).
    """
    intervals: list[Event] = []
    left_out: Counter[str] = Counter()
    for raw in trace["traceEvents"]:
        if not isinstance(raw, dict):
            left_out["broken"] += 1
        elif raw.get("ph") != "X":
            left_out["unread"] += raw.get("ph") in UNREAD_PHASES
        elif raw.get("cat") in CATEGORIES:
            event = _event(raw)
            if isinstance(event, str):
                left_out[event] += 1
            else:
                intervals.append(event)
    return intervals, left_out


def _event(raw: dict[str, Any]) -> Event | str:
    args = raw["args"] if isinstance(raw.get("args"), dict) else {}
    start, length = raw.get("ts"), raw.get("dur")
    if args.get("finished") is False:
        return "unfinished"
    if not (_is_time(start) and _is_time(length)) or start == length == 0:
        return "broken"
    start_ns, length_ns = round(start * 1000), round(length * 1000)
    correlation = args.get("correlation")
    return Event(
        raw["cat"],
        str(raw.get("name", "")),
        str(raw.get("pid")),
        str(raw.get("tid")),
        start_ns,
        start_ns + length_ns,
        correlation if isinstance(correlation, int) and correlation > 0 else None,
    )


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def save(trace: Trace, path: Path, max_bytes: int, place: int, most: int) -> int:
    """Writes the step at `place` and its neighbours to `path`, a .json.gz; as many as fit.

    At most `most` steps. Returns their number; there is no file if none fits. Each step must have
    been waited for, so that none of its work runs in the next. May raise OSError.
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


def room_bytes(folder: Path, file_bytes: int, folder_bytes: int) -> int:
    """The largest size of a new file, given limits for a file and for all files in `folder`.

    No file is removed to make room, because rows name their files. Half-written files, whose names
    begin with a dot, do not count.
    """
    taken = sum(_bytes(file) for file in folder.glob("[!.]*"))
    return max(0, min(file_bytes, folder_bytes - taken))


def _bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # deleted since it was listed
        return 0


def _part(trace: Trace, starts_us: Sequence[float], place: int, steps: int) -> Trace:
    """The trace with this many steps around the one at `place`; names of threads stay.

    What lies before the first step stays with it, and what follows the last one with that.
    """
    first = max(0, min(place - steps // 2, len(starts_us) - steps))
    begin_us = starts_us[first] if first else -math.inf
    end_us = starts_us[first + steps] if first + steps < len(starts_us) else math.inf
    events = trace["traceEvents"]
    kept = [
        each for each in events if each.get("ph") == "M" or begin_us <= each.get("ts", 0) < end_us
    ]
    return {**trace, "traceEvents": kept}
