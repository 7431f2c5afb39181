"""A caching allocator in Python beneath a pretended torch.cuda, so that experiments run here.

It follows CUDACachingAllocator.cpp as far as the claims on it look: sizes of blocks and segments,
pools per stream, events of record_stream, what is returned when, and pages of expandable segments.
Its `Rules` can be bent, to see a verdict turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from modescope.bench.devices.cuda import Cuda
from modescope.bench.devices.devices import Hardware
from modescope.bench.tools.claims.chapters.allocator import caching, fragments

MIB = 2**20
TOTAL = 8 * 2**30
CYCLES_PER_S = 2e9
PAGE = 20 * MIB  # of an expandable segment


@dataclass(frozen=True)
class Rules:
    """What is so; as torch does it, unless said otherwise."""

    small_step: int = 512
    large_step: int = 512
    caches: bool = True  # freed blocks stay
    empties: bool = True  # empty_cache returns what it can
    streams_share: bool = False  # a block goes to whoever asks
    idle_streams_share: bool = False  # once all work is done
    waits_for_events: bool = True  # of record_stream
    compacts: bool = False  # what is free serves any request, in pieces or not
    expands: bool = True  # there are expandable segments


@dataclass
class Stream:
    """A queue: its work is done at `until_s`."""

    until_s: float = 0.0


@dataclass
class Block:
    """A piece of a segment."""

    start: int
    size: int
    free: bool = True
    stream: Stream | None = None  # on which it was taken
    waits_s: float = 0.0  # for the work of streams that were recorded


@dataclass
class Segment:
    """What the driver gave at once; of an expandable one, pages are given one by one."""

    stream: Stream
    small: bool
    blocks: list[Block]
    expandable: bool = False
    pages: set[int] = field(default_factory=set)

    @property
    def reserved(self) -> int:
        if self.expandable:
            return len(self.pages) * PAGE
        return sum(block.size for block in self.blocks)


class Tensor:
    """What the experiments ask of one."""

    def __init__(self, memory: Memory, block: Block, size: int) -> None:
        self.memory, self.block, self.nbytes = memory, block, size
        self.value: int | None = None

    def __del__(self) -> None:
        self.memory.give_back(self.block)

    def data_ptr(self) -> int:
        return self.block.start

    def record_stream(self, stream: Stream) -> None:
        if self.memory.rules.waits_for_events:
            self.block.waits_s = max(self.block.waits_s, stream.until_s)

    def fill_(self, value: int) -> Tensor:
        self.value = value
        return self

    def __eq__(self, value: object) -> Any:
        return SimpleNamespace(all=lambda: self.value == value)

    __hash__ = object.__hash__


class Memory:
    """The allocator, the driver and the clock."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.segments: list[Segment] = []
        self.next_start = PAGE
        self.now_s = 0.0
        self.stream = Stream()
        self.fraction = 1.0
        self.settings = ""
        self.counts = dict.fromkeys(("allocated", "freed", "allocated_bytes", "freed_bytes"), 0)

    # What torch.cuda tells

    @property
    def reserved(self) -> int:
        return sum(segment.reserved for segment in self.segments)

    @property
    def live(self) -> int:
        return sum(b.size for s in self.segments for b in s.blocks if not b.free)

    def stats(self, device: object) -> dict[str, int]:
        counts = self.counts
        stats = {"allocation.all.allocated": counts["allocated"]}
        stats["allocation.all.freed"] = counts["freed"]
        for kind in ("allocated", "requested"):
            stats[f"{kind}_bytes.all.allocated"] = counts["allocated_bytes"]
            stats[f"{kind}_bytes.all.freed"] = counts["freed_bytes"]
            stats[f"{kind}_bytes.all.peak"] = stats[f"{kind}_bytes.all.current"] = self.live
        return stats

    def snapshot(self, include_traces: bool) -> list[dict[str, Any]]:
        return [
            {
                "device": 0,
                "segment_pool_id": (0, 0),
                "total_size": segment.reserved,
                "allocated_size": sum(b.size for b in segment.blocks if not b.free),
                "is_expandable": segment.expandable,
            }
            for segment in self.segments
        ]

    # What torch.cuda does

    def take(self, size: int) -> Tensor:
        step = self.rules.small_step if size <= MIB else self.rules.large_step
        rounded = -(-size // step) * step
        block = self._found(rounded) or self._new(rounded)
        if block is None:
            self.empty_cache()
            block = self._new(rounded)
        if block is None:
            raise torch.OutOfMemoryError(f"{size} B, of {self.reserved} B {self.live} B are in use")
        block.free, block.stream = False, self.stream
        self.counts["allocated"] += 1
        self.counts["allocated_bytes"] += block.size
        return Tensor(self, block, size)

    def give_back(self, block: Block) -> None:
        block.free = True
        self.counts["freed"] += 1
        self.counts["freed_bytes"] += block.size
        for segment in self.segments:
            segment.blocks = self._merged(segment.blocks)
        if not self.rules.caches:
            self._release()

    def empty_cache(self) -> None:
        if self.rules.empties:
            self._release()

    def synchronize(self, device: object = None) -> None:
        self.now_s = max(self.now_s, self.stream.until_s, *self._queues())

    def _queues(self) -> list[float]:
        return [s.stream.until_s for s in self.segments] or [0.0]

    def _release(self) -> None:
        for segment in self.segments:
            used = {
                page
                for block in segment.blocks
                if not block.free
                for page in range(block.start // PAGE, -(-(block.start + block.size) // PAGE))
            }
            segment.pages &= used
        self.segments = [
            s
            for s in self.segments
            if s.pages or not (s.expandable or all(map(self._idle, s.blocks)))
        ]

    # Where blocks come from

    def _idle(self, block: Block) -> bool:
        return block.free and block.waits_s <= self.now_s

    def _merged(self, blocks: list[Block]) -> list[Block]:
        merged: list[Block] = []
        for block in blocks:
            last = merged[-1] if merged else None
            if last and last.free and block.free and not block.waits_s and not last.waits_s:
                last.size += block.size
            else:
                merged.append(block)
        return merged

    def _fits(self, segment: Segment, small: bool) -> bool:
        alike = segment.small == small and segment.expandable == self._expandable
        if self.rules.streams_share or segment.stream is self.stream:
            return alike
        idle = max(self._queues()) <= self.now_s
        return alike and idle and self.rules.idle_streams_share

    def _found(self, size: int) -> Block | None:
        """The smallest that is large enough, what is left of it split off."""
        places = [
            (block.size, block.start, segment, block)
            for segment in self.segments
            if self._fits(segment, size <= MIB)
            for block in segment.blocks
            if self._idle(block) and block.size >= size and self._mapped(segment, block)
        ]
        if not places:
            return None
        *_, segment, block = min(places, key=lambda place: place[:2])
        left = block.size - size
        if left >= 512 if segment.small or segment.expandable else left > MIB:
            at = segment.blocks.index(block)
            segment.blocks.insert(at + 1, Block(block.start + size, left))
            block.size = size
        block.waits_s = 0.0
        return block

    @staticmethod
    def _mapped(segment: Segment, block: Block) -> bool:
        first, last = block.start // PAGE, -(-(block.start + block.size) // PAGE)
        return not segment.expandable or set(range(first, last)) <= segment.pages

    @property
    def _expandable(self) -> bool:
        return self.rules.expands and self.settings.endswith("True")

    def _new(self, size: int) -> Block | None:
        request = (
            2 * MIB
            if size <= MIB
            else 20 * MIB
            if size < 10 * MIB
            else -(-size // (2 * MIB)) * 2 * MIB
        )
        room = self.fraction * TOTAL - (self.live if self.rules.compacts else self.reserved)
        if request > room:
            return None
        if self._expandable and size > MIB:
            return self._expanded(size)
        self.segments.append(
            Segment(self.stream, size <= MIB, [Block(self._address(request), request)])
        )
        return self._found(size)

    def _expanded(self, size: int) -> Block | None:
        """At the segment's end, where pages are mapped as they are needed."""
        own = [s for s in self.segments if s.expandable and s.stream is self.stream]
        segment = own[0] if own else Segment(self.stream, False, [], True)
        if not own:
            self.segments.append(segment)
        blocks = segment.blocks
        start = blocks[-1].start + blocks[-1].size if blocks else self._address(TOTAL)
        if (
            blocks
            and start % PAGE == 0
            and blocks[-1].free
            and not self._mapped(segment, blocks[-1])
        ):
            start = blocks.pop().start  # its pages were returned
        size_in_pages = -(-size // PAGE) * PAGE
        segment.pages |= set(range(start // PAGE, (start + size_in_pages) // PAGE))
        blocks.append(Block(start, size_in_pages))
        return self._found(size)

    def _address(self, size: int) -> int:
        start = self.next_start
        self.next_start += -(-size // PAGE) * PAGE
        return start


def pretend(rules: Rules, patch: pytest.MonkeyPatch) -> Hardware:
    """The device on which the experiments then run."""
    memory = Memory(rules)

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        before, memory.stream = memory.stream, stream
        yield
        memory.stream = before

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            self.at_s = 0.0

        def record(self) -> None:
            self.at_s = memory.stream.until_s

        def query(self) -> bool:
            return self.at_s <= memory.now_s

        def elapsed_time(self, later: Event) -> float:
            return (later.at_s - self.at_s) * 1e3

    def sleep(cycles: int) -> None:
        memory.stream.until_s = max(memory.stream.until_s, memory.now_s) + cycles / CYCLES_PER_S

    for name, value in {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "set_device": lambda index: None,
        "get_device_properties": lambda device: SimpleNamespace(uuid="0a"),
        "get_allocator_backend": lambda: "native",
        "synchronize": memory.synchronize,
        "empty_cache": memory.empty_cache,
        "reset_peak_memory_stats": lambda device: None,
        "memory_stats": memory.stats,
        "memory_snapshot": memory.snapshot,
        "memory_reserved": lambda device: memory.reserved,
        "mem_get_info": lambda device: (TOTAL - memory.reserved, TOTAL),
        "get_per_process_memory_fraction": lambda device: memory.fraction,
        "set_per_process_memory_fraction": lambda to, device: setattr(memory, "fraction", to),
        "Stream": lambda device: Stream(),
        "stream": on,
        "Event": Event,
        "_sleep": sleep,
    }.items():
        patch.setattr(torch.cuda, name, value)
    patch.setattr(
        torch._C, "_accelerator_setAllocatorSettings", lambda to: setattr(memory, "settings", to)
    )
    for chapter in (caching, fragments):
        patch.setattr(chapter, "taken", lambda size, device: memory.take(size))
    return Cuda(0)
