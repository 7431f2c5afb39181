"""Counts the memory of tensors: the interface of allocators, and the CPU's allocator.

Memory outside the allocator (scratch of oneDNN and MKL, the CUDA context, Python's objects) is not
counted. Also tells which errors mean that memory did not suffice.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.autograd import profiler
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from modescope.bench.records.columns.passes import Setup

T = TypeVar("T")

ALLOCATION = "[memory]"
"""The profiler's name for an allocation or a release."""

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to clear_refs, it sets the peak of the resident set to its present size (proc(5))."""


@dataclass(frozen=True)
class Allocations:
    """Counts and bytes of the allocations and releases within a block of code."""

    allocations: int
    releases: int
    allocated_bytes: int  # sum over allocations
    released_bytes: int
    peak_bytes: int  # most held at one time, above the start

    @property
    def left_bytes(self) -> int:
        """Bytes held at the end minus bytes held at the start; negative if more was released."""
        return self.allocated_bytes - self.released_bytes


@dataclass
class Watched(Generic[T]):
    """Holds what a watch has found: `result` is None until the watched block has ended."""

    result: T | None = None


class Allocator(Protocol):
    """The allocator of a device's tensors. Pools and snapshots are optional."""

    @property
    def unreadable(self) -> str | None:
        """Why its statistics cannot be read, so that all readings are None; None if they can."""

    @property
    def snapshots(self) -> bool:
        """Whether it supports `record`."""
        return False

    def watch(self) -> AbstractContextManager[Watched[Allocations]]:
        """Counts what is allocated and released within the block.

        Garbage that is collected within the block counts as released, so collect it before. The
        result stays None if the allocator is unreadable.
        """

    def watch_setup(self) -> AbstractContextManager[Watched[Setup]]:
        """Reads the peak memory of a block that compiles or captures, without slowing it down."""

    def resident_bytes(self) -> int | None:
        """Returns the bytes that all tensors of this process hold now."""

    def workspace_bytes(self) -> int | None:
        """Returns the part of `resident_bytes` that libraries keep until the process ends."""
        return None

    def pools(self) -> Mapping[str, int]:
        """Returns the bytes that are reserved from the system now. Empty if unknown.

        The keys are the columns `reserved_bytes`, `graph_pool_bytes` and `graph_pool_live_bytes` of
        `Memory`.
        """
        return {}

    def release_unused(self) -> None:
        """Returns unused memory to the system."""

    def record(self, path: Path, entries: int) -> AbstractContextManager[None]:
        """Writes a snapshot of the block's last `entries` memory events. Needs `snapshots`."""
        raise AssertionError("this allocator has no snapshots")


def tally(changes_bytes: Iterable[int]) -> Allocations:
    """Sums up allocations (positive bytes) and releases (negative bytes) in order of time."""
    changes = list(changes_bytes)
    held = peak = 0
    for change in changes:
        held += change
        peak = max(peak, held)
    taken = [change for change in changes if change > 0]
    returned = [-change for change in changes if change < 0]
    return Allocations(len(taken), len(returned), sum(taken), sum(returned), peak)


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Returns what a wrapper, such as weights of fewer bits, consists of; else the tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in parts(getattr(tensor, name))]


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Sums the bytes of all storages, each once. Raises NotImplementedError for sparse tensors.

    A wrapper counts as its parts: it claims a storage of the size that it stands for.
    """
    storages = [part.untyped_storage() for tensor in tensors for part in parts(tensor)]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


class CpuAllocator(Allocator):
    """The host's memory as torch's CPU allocator reports it: sizes without what malloc adds.

    Pools of malloc are unknown, and torch writes no snapshots of CPU memory.
    """

    unreadable: str | None = None

    @contextmanager
    def watch(self) -> Iterator[Watched[Allocations]]:
        """See `Allocator`. Cannot be used within another profiler.

        Releases of blocks that were allocated outside any watch are missed: the profiler knows only
        the sizes of blocks whose allocation it recorded.
        """
        watched = Watched[Allocations]()
        with profiler.profile(profile_memory=True) as profile:
            yield watched
        assert profile.kineto_results is not None
        watched.result = tally(_changes_bytes(profile.kineto_results.experimental_event_tree()))

    @contextmanager
    def watch_setup(self) -> Iterator[Watched[Setup]]:
        """See `Allocator`. The peak is the growth of the whole process's memory.

        A profiler, which `watch` uses, would slow down compiling. The growth includes imports and
        the compiler's own data. It excludes child processes, and memory that the process already
        had and used again.
        """
        watched = Watched[Setup]()
        try:
            before = _resident_set_bytes("VmRSS")
            CLEAR_REFS.write_text(RESET_PEAK)
        except OSError as error:
            yield watched
            watched.result = Setup(None, f"the peak of the resident set cannot be read: {error}")
            return
        yield watched
        watched.result = Setup(
            max(0, _resident_set_bytes("VmHWM") - before),
            "growth of the process's resident set, libraries and compiler included",
        )

    def resident_bytes(self) -> int:
        """See `Allocator`. Misses tensors that only C++ holds or that gc.freeze() has hidden."""
        gc.collect()
        return storage_bytes(_live_cpu_tensors())

    def release_unused(self) -> None:
        """See `Allocator`. Does nothing: torch caches no CPU memory."""


def _changes_bytes(tree: Iterable[Any]) -> list[int]:
    events = [event for event in _flat(tree) if event.name == ALLOCATION]
    of_cpu = [event for event in events if event.extra_fields.device.type == "cpu"]
    of_cpu.sort(key=lambda event: int(event.start_time_ns))
    return [event.extra_fields.alloc_size for event in of_cpu]


def _flat(tree: Iterable[Any]) -> Iterator[Any]:
    waiting = list(tree)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        yield event


def _live_cpu_tensors() -> Iterator[torch.Tensor]:
    """Yields the CPU tensors that have memory, which a compiler's fake tensors have not.

    Wrappers are left out: their parts are tensors, too, and those of fake ones are fake.
    """
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor):  # isinstance would import lazy modules
            continue
        if is_traceable_wrapper_subclass(thing):
            continue
        try:
            storage = thing.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse tensors, wrappers of others
            continue
        if storage.device.type == "cpu":
            yield thing


def _resident_set_bytes(name: str) -> int:
    """Reads VmRSS (present size) or VmHWM (peak) of this process.

    Raises OSError if the system does not report it.
    """
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")


OUT_OF_MEMORY_TEXTS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "_STATUS_ALLOC_FAILED",
)
"""Texts of plain RuntimeErrors of torch's CPU allocator, the CUDA driver, cuBLAS and cuDNN."""


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether `error` means that memory did not suffice."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        text in str(error) for text in OUT_OF_MEMORY_TEXTS
    )
