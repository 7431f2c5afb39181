"""A trace as a file of bounded size, for Perfetto and to be read again."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

from bench import leftovers
from bench.profiling.events import RANGES, Trace
from bench.profiling.steps import STEP


@dataclass(frozen=True)
class Saved:
    """What became of a trace; no steps and no bytes where not even one step fits."""

    steps: int
    bytes: int


def save(trace: Trace, path: Path, max_bytes: int) -> Saved:
    """Writes the trace to `path`, a .json.gz, with the most of its steps that fit, from the first.

    Its steps must have been waited for, so that nothing of one step runs in the next. The name
    appears once the file is complete; there is none if no step fits. Raises OSError where the file
    cannot be written.
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
            _write(data, path)
            return Saved(steps, len(data))
        steps = min(steps - 1, int(steps * max_bytes / len(data)))
    return Saved(0, 0)


def room_bytes(folder: Path, file_bytes: int, folder_bytes: int) -> int:
    """How large may one more file be, if none exceeds `file_bytes` and all together the other?

    Nothing is removed to make room: rows name their files and are never written again. Half-written
    files do not count, whose names begin with a dot.
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
    events = [
        event
        for event in trace["traceEvents"]
        if event.get("ph") == "M" or event.get("ts", 0) < end_us
    ]
    return {**trace, "traceEvents": events}


def _write(data: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = leftovers.partial(path)
    try:
        partial.write_bytes(data)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
