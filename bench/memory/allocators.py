"""What does a piece of a program do to memory? Asked of the allocator; here is the CPU's.

An allocator answers in bytes that tensors take. What libraries keep for themselves outside of it
(oneDNN's and MKL's scratch, the CUDA context, Python's own objects) it does not see.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch.autograd import profiler

Found = TypeVar("Found")

ALLOCATION = "[memory]"
"""What the profiler calls an allocation or a release."""

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""Written to clear_refs, it sets the peak of the resident set to its present size (proc(5))."""


@dataclass(frozen=True)
class Allocations:
    """What happened to an allocator within a block of code. Bytes, relative to its beginning."""

    allocations: int
    releases: int
    allocated_bytes: int  # sum over allocations
    released_bytes: int
    peak_bytes: int  # most that was held at one time, above the beginning
    requested_peak_bytes: int  # the same before the allocator rounded sizes up

    @property
    def left_bytes(self) -> int:
        """What is held at the end and was not at the beginning; negative if memory was returned."""
        return self.allocated_bytes - self.released_bytes


@dataclass(frozen=True)
class Peak:
    """Most memory taken at one time above the beginning; None, and the reason, where unknown."""

    above_start_bytes: int | None
    note: str | None  # what was measured instead of the allocator, or why there is no number


@dataclass
class Watched(Generic[Found]):
    """What a watch will have found once its block has ended; None until then."""

    found: Found | None = None


@dataclass(frozen=True)
class Pools:
    """What an allocator holds from the system, used or not. Bytes; None where it has no pools."""

    reserved_bytes: int | None
    graph_pool_bytes: int | None  # reserved for CUDA graphs alone
    graph_pool_live_bytes: int | None  # of that, held by tensors now


class Allocator(Protocol):
    """Where tensors of a device get their memory."""

    @property
    def unreadable(self) -> str | None:
        """Why it tells nothing, so that all it is asked is None; None where it tells."""
        ...

    @property
    def snapshots(self) -> bool:
        """Whether it can `record`."""
        ...

    def watch(self) -> AbstractContextManager[Watched[Allocations]]:
        """Counts what is allocated and released within the block.

        Garbage that happens to be collected within counts as released: collect it before. Finds
        nothing where the allocator is unreadable.
        """
        ...

    def watch_setup(self) -> AbstractContextManager[Watched[Peak]]:
        """Reads the peak of a block that compiles or captures, without slowing it down."""
        ...

    def resident_bytes(self) -> int | None:
        """What all tensors of this process hold now."""
        ...

    def pools(self) -> Pools:
        """What is held from the system now."""
        ...

    def release_unused(self) -> None:
        """Returns to the system what it keeps and no tensor holds."""
        ...

    def record(self, path: Path, entries: int) -> AbstractContextManager[None]:
        """Writes a memory snapshot to `path`: the last `entries` events of the block.

        Only where `snapshots`.
        """
        ...


def tally(changes_bytes: Iterable[int]) -> Allocations:
    """Allocations (positive) and releases (negative) in the order in which they happened."""
    changes = list(changes_bytes)
    held = peak = 0
    for change in changes:
        held += change
        peak = max(peak, held)
    taken = [change for change in changes if change > 0]
    returned = [-change for change in changes if change < 0]
    return Allocations(len(taken), len(returned), sum(taken), sum(returned), peak, peak)


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes that the tensors take together: each storage once, however many share it.

    Raises NotImplementedError for a tensor without a storage of its own, such as a sparse one.
    """
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


class CpuAllocator:
    """The host's memory, as torch's CPU allocator reports it to the profiler.

    Sizes are as requested: what malloc adds to them is not seen.
    """

    unreadable: str | None = None
    snapshots = False  # torch writes those of CUDA memory alone

    @contextmanager
    def watch(self) -> Iterator[Watched[Allocations]]:
        """See `Allocator`. Not within another profiler.

        The release of what was allocated outside of any watch is not seen: the profiler knows the
        size of a block only if it was there when the block was taken.
        """
        watched = Watched[Allocations]()
        with profiler.profile(profile_memory=True) as profile:
            yield watched
        assert profile.kineto_results is not None
        watched.found = tally(_changes_bytes(profile.kineto_results.experimental_event_tree()))

    @contextmanager
    def watch_setup(self) -> Iterator[Watched[Peak]]:
        """See `Allocator`. The growth of the whole process, because profiling a compile costs more.

        So imports and the compiler's own data are in it, child processes are not, and memory that
        the process had already before and used again is not seen.
        """
        watched = Watched[Peak]()
        try:
            before = _resident_set_bytes("VmRSS")
            CLEAR_REFS.write_text(RESET_PEAK)
        except OSError as error:
            yield watched
            watched.found = Peak(None, f"the peak of the resident set cannot be read: {error}")
            return
        yield watched
        watched.found = Peak(
            max(0, _resident_set_bytes("VmHWM") - before),
            "growth of the process's resident set, libraries and compiler included",
        )

    def resident_bytes(self) -> int:
        """See `Allocator`. Tensors that Python tracks: not what only C++ holds, nor frozen ones."""
        gc.collect()
        return storage_bytes(_live_cpu_tensors())

    def pools(self) -> Pools:
        """See `Allocator`. malloc is not asked, and a CPU has no CUDA graphs."""
        return Pools(reserved_bytes=None, graph_pool_bytes=None, graph_pool_live_bytes=None)

    def release_unused(self) -> None:
        """See `Allocator`. torch keeps nothing: what is free is malloc's."""

    def record(self, path: Path, entries: int) -> AbstractContextManager[None]:
        """Never asked: it writes no snapshots."""
        raise AssertionError("a CPU's memory has no snapshots")


def _changes_bytes(tree: Iterable[Any]) -> list[int]:
    """Signed sizes of CPU allocations in a profiler's event tree, in order of time."""
    events = [event for event in _flat(tree) if event.name == ALLOCATION]
    of_cpu = [event for event in events if event.extra_fields.device.type == "cpu"]
    return [event.extra_fields.alloc_size for event in sorted(of_cpu, key=_start_ns)]


def _flat(tree: Iterable[Any]) -> Iterator[Any]:
    waiting = list(tree)
    while waiting:
        event = waiting.pop()
        waiting += event.children
        yield event


def _start_ns(event: Any) -> int:
    return int(event.start_time_ns)


def _live_cpu_tensors() -> Iterator[torch.Tensor]:
    """Tensors with memory of their own; a compiler's fake ones have none."""
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor):  # isinstance would wake lazy modules
            continue
        try:
            storage = thing.untyped_storage()
        except (NotImplementedError, RuntimeError):  # sparse tensors, wrappers of others
            continue
        if storage.device.type == "cpu":
            yield thing


def _resident_set_bytes(name: str) -> int:
    """VmRSS (now) or VmHWM (peak) of this process; raises OSError where there is no such line."""
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{STATUS} has no {name}")
