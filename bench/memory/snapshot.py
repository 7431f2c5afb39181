"""A file for PyTorch's memory viewer: one steady call, in a size that is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench import leftovers
from bench.devices import Step
from bench.memory.allocators import Allocator

ENTRIES = (20_000, 2_000, 200)
"""Events of a call that are kept, the last ones: the most whose file is small enough. How much each
takes depends on its Python stack."""

NO_ROOM = (
    "no snapshot is kept: files of the study take traces_max_mb already; delete some, or allow more"
)
TOO_LARGE = (
    "no snapshot is kept: its last {} events alone take more than the {:g} MB that it may; allow "
    "more (trace_max_mb, traces_max_mb)"
)
CUT = "the snapshot holds at most the last {} events of the call: more do not fit into {:g} MB"


@dataclass(frozen=True)
class Kept:
    """What became of a snapshot; the names are those of the record's columns."""

    snapshot: str | None  # the file's name
    snapshot_note: str | None


def keep(step: Step, allocator: Allocator, path: Path, max_bytes: int) -> Kept:
    """Writes a snapshot of a warm `step` to `path`, if one can be had in `max_bytes`.

    Calls `step` once for each number of `ENTRIES` that it takes. The name appears once the file is
    complete. Raises OSError where it cannot be written.
    """
    if not max_bytes:
        return Kept(None, NO_ROOM)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = leftovers.partial(path)
    try:
        for entries in ENTRIES:
            with allocator.record(partial, entries):
                step()
            if partial.stat().st_size <= max_bytes:
                partial.replace(path)
                cut = entries < ENTRIES[0]
                return Kept(path.name, CUT.format(entries, max_bytes / 1e6) if cut else None)
    finally:
        partial.unlink(missing_ok=True)
    return Kept(None, TOO_LARGE.format(ENTRIES[-1], max_bytes / 1e6))
