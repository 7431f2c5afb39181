"""Writes a trace as a file of limited size, for Perfetto and for reading it again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from modescope.bench.case.profiler.events import RANGES, Trace
from modescope.bench.case.profiler.steps import STEP
from modescope.bench.records.files import atomic_write


def save(trace: Trace, path: Path, max_bytes: int) -> int:
    """Writes the trace to `path`, a .json.gz, with as many steps as fit, from the first on.

    Returns their number; there is no file if none fits. Each step must have been waited for, so
    that none of its work runs in the next. May raise OSError.
    """
    starts_us = sorted(
        event["ts"]
        for event in trace["traceEvents"]
        if event.get("cat") in RANGES and event.get("name") == STEP
    )
    steps = len(starts_us)
    while steps > 0:
        part = trace if steps == len(starts_us) else _until(starts_us[steps], trace)
        text = json.dumps(part, separators=(",", ":"))
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


def _until(end_us: float, trace: Trace) -> Trace:
    """The trace without what starts at `end_us` or later; names of threads stay."""
    events = trace["traceEvents"]
    kept = [each for each in events if each.get("ph") == "M" or each.get("ts", 0) < end_us]
    return {**trace, "traceEvents": kept}
