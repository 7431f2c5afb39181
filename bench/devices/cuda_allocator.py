"""Reads the statistics of CUDA's caching allocator, which costs a step no time."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from modescope.bench.devices.allocators import Allocations, Watched
from modescope.bench.records.columns.passes import Setup

SHARED_POOL = (0, 0)
"""`segment_pool_id` of memory that is not reserved for a CUDA graph (CUDACachingAllocator)."""

COUNTS = "native"
"""The only allocator backend of torch with full statistics. cudaMallocAsync leaves most at zero
(see torch's documentation of memory_stats) and refuses snapshots; pluggable backends refuse
both."""

UNREADABLE = (
    f"torch counts CUDA memory only with its allocator backend {COUNTS}, and this process uses "
    "{}; PYTORCH_ALLOC_CONF sets the backend"
)


class CudaAllocator:
    """The memory of one GPU as torch's caching allocator counts it.

    cuBLAS's workspace counts too, from the first matrix product on. A replayed graph allocates
    nothing: its memory is in `graph_pool_bytes`.
    """

    def __init__(self, index: int) -> None:
        self.index = index

    @property
    def unreadable(self) -> str | None:
        """See `Allocator`. Read anew each time, because the backend can change at any time."""
        backend = torch.cuda.get_allocator_backend()
        return None if backend == COUNTS else UNREADABLE.format(backend)

    @property
    def snapshots(self) -> bool:
        """See `Allocator`."""
        return self.unreadable is None

    @contextmanager
    def watch(self) -> Iterator[Watched[Allocations]]:
        """See `Allocator`. Sizes are those of the allocator's blocks, rounded up to 512 bytes.

        Cached memory that is not in use is returned to the driver first, so that `pools` then shows
        what the watched code reserved.
        """
        watched = Watched[Allocations]()
        if self.unreadable:
            yield watched
            return
        torch.cuda.synchronize(self.index)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.index)
        before = torch.cuda.memory_stats(self.index)
        yield watched
        torch.cuda.synchronize(self.index)
        watched.result = changes_between(before, torch.cuda.memory_stats(self.index))

    @contextmanager
    def watch_setup(self) -> Iterator[Watched[Setup]]:
        """See `Allocator`. The peak includes autotuning and warm-up calls."""
        watched = Watched[Setup]()
        with self.watch() as block:
            yield watched
        peak_bytes = block.result.peak_bytes if block.result else None
        watched.result = Setup(peak_bytes, self.unreadable)

    def resident_bytes(self) -> int | None:
        """See `Allocator`."""
        gc.collect()
        return None if self.unreadable else int(torch.cuda.memory_allocated(self.index))

    def workspace_bytes(self) -> int | None:
        """See `Allocator`. They are dropped, so that the next product makes one anew."""
        before_bytes = self.resident_bytes()
        if before_bytes is None or not drop_workspaces():
            return None
        return before_bytes - int(torch.cuda.memory_allocated(self.index))

    def pools(self) -> Mapping[str, int]:
        """See `Allocator`."""
        if self.unreadable:
            return {}
        private = [s for s in self._segments() if tuple(s["segment_pool_id"]) != SHARED_POOL]
        return {
            "reserved_bytes": int(torch.cuda.memory_reserved(self.index)),
            "graph_pool_bytes": sum(s["total_size"] for s in private),
            "graph_pool_live_bytes": sum(s["allocated_size"] for s in private),
        }

    def _segments(self) -> list[dict[str, Any]]:
        segments = torch.cuda.memory_snapshot(include_traces=False)
        return [segment for segment in segments if segment["device"] == self.index]

    def release_unused(self) -> None:
        """See `Allocator`. Memory of CUDA graphs stays, because their replays need it."""
        torch.cuda.synchronize(self.index)
        torch.cuda.empty_cache()

    def expandable_bytes(self) -> int:
        """Returns the bytes reserved in expandable segments."""
        return sum(s["total_size"] for s in self._segments() if s["is_expandable"])

    @contextmanager
    def expandable_segments(self, on: bool) -> Iterator[None]:
        """Applies PYTORCH_ALLOC_CONF=expandable_segments:<on> to segments made in the block.

        Unused segments, which are of the other kind, are returned to the driver before and after.
        Afterwards the settings of the environment apply, because not every torch can report the
        settings in force. If the platform has no such segments, nothing happens and
        `expandable_bytes` stays 0.
        """
        before = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
        self.release_unused()
        torch._C._accelerator_setAllocatorSettings(f"expandable_segments:{on}")
        try:
            yield
        finally:
            self.release_unused()
            again = ",".join(filter(None, ("expandable_segments:False", before)))  # the last counts
            torch._C._accelerator_setAllocatorSettings(again)

    @contextmanager
    def limit_reserved(self, more_bytes: int) -> Iterator[None]:
        """Lets the block reserve at most `more_bytes` more, before it runs out of memory.

        Unused segments may be returned and reserved again, as on a full device.
        """
        total = torch.cuda.mem_get_info(self.index)[1]
        before = torch.cuda.get_per_process_memory_fraction(self.index)
        allowed = torch.cuda.memory_reserved(self.index) + more_bytes
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), self.index)
        try:
            yield
        finally:
            torch.cuda.set_per_process_memory_fraction(before, self.index)

    @contextmanager
    def record(self, path: Path, entries: int) -> Iterator[None]:
        """See `Allocator`. The file opens in PyTorch's memory viewer (pytorch.org/memory_viz)."""
        torch.cuda.memory._record_memory_history(
            context="alloc", stacks="python", max_entries=entries, clear_history=True
        )
        try:
            yield
            torch.cuda.synchronize(self.index)
            torch.cuda.memory._dump_snapshot(str(path))
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)


def drop_workspaces() -> bool:
    """Frees cuBLAS's workspaces, which torch keeps per stream; whether this torch can do so.

    A graph keeps the address of the one that it was captured with. If that lies in the graph's own
    pool, nothing else gets this memory as long as the graph lives. torch's own graph trees call
    the same function before each capture.
    """
    drop = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)  # only builds for CUDA have it
    if drop is None:
        return False
    drop()
    return True


def changes_between(before: dict[str, int], after: dict[str, int]) -> Allocations:
    """Returns the allocations between two readings of `memory_stats`.

    The peak must have been reset at the first reading.
    """

    def growth(name: str, since: str | None = None) -> int:
        return after[name] - before[since or name]

    return Allocations(
        allocations=growth("allocation.all.allocated"),
        releases=growth("allocation.all.freed"),
        allocated_bytes=growth("allocated_bytes.all.allocated"),
        released_bytes=growth("allocated_bytes.all.freed"),
        peak_bytes=growth("allocated_bytes.all.peak", since="allocated_bytes.all.current"),
    )
