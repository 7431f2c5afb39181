"""Watches the allocations of a block of code, on a CPU or a GPU.

    from modescope.bench.allocations import watch_allocations

    with watch_allocations("reshape of a transpose"):
        y = x.T.reshape(512, 2048)

prints, for 1024 × 1024 of float16 (the freed bytes are the copy kernel's scratch),

    reshape of a transpose: 2 allocations of 2,104,352 B on cpu, 7,200 B freed, 2,104,352 B at most
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from modescope.bench.devices.allocators import Allocations
from modescope.bench.devices.cuda import use_device

PROFILER_SILENT = ("KINETO_LOG_LEVEL", "99")
"""Variable and value that keep torch's profiler from writing to stderr (kineto's Logger.cpp)."""


class WatchedBlock:
    """The allocations of tensors within one watched block of code.

    On a CPU, bytes are as requested; on a GPU, they are rounded up to the allocator's blocks.
    Figures are None until the block has ended, and stay None if `unreadable` says why they are
    unknown.
    """

    def __init__(self, label: str, device: str) -> None:
        self.label = label
        self.device = device
        self.result: Allocations | None = None
        self.unreadable: str | None = None

    @property
    def allocations(self) -> int | None:
        """The number of allocations."""
        return self.result.allocations if self.result else None

    @property
    def allocated_bytes(self) -> int | None:
        """The bytes of all allocations."""
        return self.result.allocated_bytes if self.result else None

    @property
    def freed_bytes(self) -> int | None:
        """The bytes of all releases. On a CPU, only memory allocated within a watch counts."""
        return self.result.released_bytes if self.result else None

    @property
    def left_bytes(self) -> int | None:
        """Bytes held at the end minus bytes held at the start; negative if more was freed."""
        return self.result.left_bytes if self.result else None

    @property
    def peak_bytes(self) -> int | None:
        """Largest number of bytes held at one time, minus the bytes held at the start."""
        return self.result.peak_bytes if self.result else None

    def __str__(self) -> str:
        if self.result is None:
            return f"{self.label}: {self.unreadable or 'still running'}"
        many = "1 allocation" if self.allocations == 1 else f"{self.allocations} allocations"
        taken = f"{many} of {self.allocated_bytes:,} B" if self.allocations else "no allocation"
        return (
            f"{self.label}: {taken} on {self.device}, {self.freed_bytes:,} B freed, "
            f"{self.peak_bytes:,} B at most"
        )


@contextmanager
def watch_allocations(
    label: str, device: str = "auto", report: Callable[[str], object] | None = print
) -> Iterator[WatchedBlock]:
    """Counts allocations and releases of tensors within the block, and reports one line.

    `device` is auto (the current GPU if this process has used one, else the CPU), cpu, cuda (the
    current GPU) or cuda:<index>. Garbage is collected first, so that it does not count as freed.
    Only memory of tensors counts.

    On a CPU the counts come from torch's profiler, which cannot be nested, covers this thread only
    and misses releases of memory that was allocated outside any watch. Its messages on stderr are
    switched off unless KINETO_LOG_LEVEL is set. On a GPU the counts come from the caching
    allocator, whose unused blocks are returned to the driver first.

    Raises UsageError for an unknown device, RuntimeError within another profiler or CPU watch.
    """
    with use_device(device) as hardware:  # the current GPU of the block is the caller's
        pass
    block = WatchedBlock(label, hardware.type)
    if hardware.type == "cpu":
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError(
                "allocations on a CPU are counted by torch's profiler, which is already running: "
                "end the other profiler or watch first"
            )
        os.environ.setdefault(*PROFILER_SILENT)
    gc.collect()
    with hardware.allocator.watch() as watched:
        yield block
    block.result, block.unreadable = watched.result, hardware.allocator.unreadable
    if report:
        report(str(block))
