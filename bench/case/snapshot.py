"""Writes a file of limited size for PyTorch's memory viewer, with one steady call."""

from __future__ import annotations

from pathlib import Path

from modescope.bench.devices.allocators import Allocator
from modescope.bench.devices.devices import Step
from modescope.bench.records import files
from modescope.bench.records.columns import Snapshot

ENTRIES = (20_000, 2_000, 200)
"""How many of the last events of a call are kept: the most whose file is small enough, which
depends on their Python stacks."""

NO_ROOM = (
    "no snapshot is kept: the study's files take traces_max_mb already; delete some, or increase it"
)
TOO_LARGE = (
    "no snapshot is kept: even its last {} events take more than the allowed {:g} MB; increase "
    "trace_max_mb or traces_max_mb"
)
CUT = "the snapshot holds at most the last {} events of the call: more do not fit into {:g} MB"


def keep(step: Step, allocator: Allocator, path: Path, max_bytes: int) -> Snapshot:
    """Writes a snapshot of a warm `step` to `path`, if one fits into `max_bytes`.

    Calls `step` once for each number of `ENTRIES` that it tries. May raise OSError.
    """
    if not max_bytes:
        return Snapshot(None, NO_ROOM)
    with files.atomic_write(path) as partial:
        for entries in ENTRIES:
            with allocator.record(partial, entries):
                step()
            if partial.stat().st_size <= max_bytes:
                cut = entries < ENTRIES[0]
                return Snapshot(path.name, CUT.format(entries, max_bytes / 1e6) if cut else None)
        partial.unlink()
    return Snapshot(None, TOO_LARGE.format(ENTRIES[-1], max_bytes / 1e6))
