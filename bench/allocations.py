"""What does this piece of code allocate? A monitor to put around any lines, on a CPU or a GPU.

    from bench.allocations import watch_allocations

    with watch_allocations("reshape of a transpose"):
        y = x.T.reshape(512, 2048)

prints, for 1024 × 1024 of float16 (what is freed is the copying kernel's scratch),

    reshape of a transpose: 2 allocations of 2,104,352 B on cpu, 7,200 B freed, 2,104,352 B at most
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from bench.devices import find
from bench.memory.allocators import Allocations

PROFILER_SILENT = ("KINETO_LOG_LEVEL", "99")
"""Otherwise torch's profiler writes two lines to stderr each time (kineto's Logger.cpp)."""


class Seen:
    """What happened within a block. Its figures are there once the block has ended.

    Bytes are those of tensors: on a CPU as requested, on a GPU rounded up to the allocator's
    blocks. Each is None before the block has ended and where `unreadable` says why.
    """

    def __init__(self, label: str, device: str) -> None:
        self.label = label
        self.device = device
        self.found: Allocations | None = None
        self.unreadable: str | None = None

    @property
    def allocations(self) -> int | None:
        """How often memory was taken."""
        return self.found.allocations if self.found else None

    @property
    def allocated_bytes(self) -> int | None:
        """Sum over allocations."""
        return self.found.allocated_bytes if self.found else None

    @property
    def freed_bytes(self) -> int | None:
        """Sum over what was returned; on a CPU only of what was allocated within a watch."""
        return self.found.released_bytes if self.found else None

    @property
    def left_bytes(self) -> int | None:
        """Held at the end and not at the beginning; negative where more was freed."""
        return self.found.left_bytes if self.found else None

    @property
    def peak_bytes(self) -> int | None:
        """Most that was held at one time, above the beginning."""
        return self.found.peak_bytes if self.found else None

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.label}: {self.unreadable or 'not over yet'}"
        many = "1 allocation" if self.allocations == 1 else f"{self.allocations} allocations"
        taken = f"{many} of {self.allocated_bytes:,} B" if self.allocations else "no allocation"
        return (
            f"{self.label}: {taken} on {self.device}, {self.freed_bytes:,} B freed, "
            f"{self.peak_bytes:,} B at most"
        )


@contextmanager
def watch_allocations(
    label: str, device: str = "auto", report: Callable[[str], object] | None = print
) -> Iterator[Seen]:
    """Counts what tensors of `device` take and give back within the block, then reports a line.

    `device` is auto (the GPU, if there is one), cpu, cuda or cuda:<index>. Garbage is collected
    first, so that it does not count as freed. Memory that libraries or Python take beside tensors
    is not counted.

    On a CPU the allocations come from torch's profiler: it cannot be nested, sees this thread
    alone, and does not see the release of what was allocated outside of any watch. Kineto, which
    would announce it on stderr, is silenced unless KINETO_LOG_LEVEL says otherwise. On a GPU they
    come from the caching allocator, whose unused blocks are returned to the driver first.

    Raises UsageError where there is no such device, RuntimeError within another profiler or watch
    of a CPU.
    """
    hardware = find(device)
    seen = Seen(label, hardware.type)
    if hardware.type == "cpu":
        _be_the_only_profiler()
    gc.collect()
    with hardware.allocator.watch() as watched:
        yield seen
    seen.found, seen.unreadable = watched.found, hardware.allocator.unreadable
    if report:
        report(str(seen))


def _be_the_only_profiler() -> None:
    if torch._C._autograd._profiler_enabled():
        raise RuntimeError(
            "allocations on a CPU are counted by torch's profiler, and one is running already: "
            "end it, or the other watch, first"
        )
    os.environ.setdefault(*PROFILER_SILENT)
