"""Writes a trace as a file of limited size, for Perfetto and for reading it again."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path

from modescope.bench.case.profiler.events import RANGES, Trace
from modescope.bench.case.profiler.steps import STEP
from modescope.bench.records.files import atomic_write


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
