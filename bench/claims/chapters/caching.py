"""CUDA's caching allocator: sizes of blocks and segments, and what is given back when."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.claim import Verdict, claim, holds, refuted, within_limits
from bench.claims.measuring import watched
from bench.devices import Hardware
from bench.memory.cuda import CudaAllocator

MIB = 2**20
SMALL_STEP, LARGE_STEP = 512, 2 * MIB

SMALL = (1, 511, 513, 1_000, 100_001, MIB - 1)
LARGE = (MIB + 1, 3 * MIB, 9 * MIB + 1, 10 * MIB + 1, 11 * MIB, 33 * MIB, 101 * MIB + 1)
SEGMENTS_OWN = 10 * MIB
"""From here on a request that finds no block gets a segment of its own (AllocatorConfig.h)."""


def allocator_of(device: Hardware) -> CudaAllocator:
    """The caching allocator, which alone has what these claims speak of."""
    assert isinstance(device.allocator, CudaAllocator)
    return device.allocator


def taken(size: int, device: Hardware) -> Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device=device.torch_device)


@dataclass(frozen=True)
class Rounded:
    """What requests take in an empty cache, by their bytes."""

    small: Annotated[Mapping[int, int], "block of a tensor of B:", "B"]
    large: Annotated[Mapping[int, int], "block of a tensor of B:", "B"]
    segments: Annotated[Mapping[int, int], "taken from the driver for a tensor of B:", "B"]
    settings: Annotated[str | None, "PYTORCH_ALLOC_CONF"]


def rounded_as_stated(seen: Rounded) -> Verdict:
    """Refuted if a block of less than 1 MiB is not the next multiple of 512 B.

    Holds if a larger one is the next multiple of 2 MiB. Within limits if it is not, but what is
    taken from the driver for requests of 10 MiB and more is; refuted if neither is.
    """
    for size, block in seen.small.items():
        if block != _next(size, SMALL_STEP):
            return refuted("a small block is rounded otherwise", _block(size, block))
    told = f"{len(seen.small)} small requests became the next multiple of 512 B"
    finer = {s: block for s, block in seen.large.items() if block != _next(s, LARGE_STEP)}
    if not finer:
        return holds(f"{told}, {len(seen.large)} large ones that of 2 MiB")
    own = {s: taken for s, taken in seen.segments.items() if s >= SEGMENTS_OWN}
    if any(taken != _next(size, LARGE_STEP) for size, taken in own.items()):
        return refuted("large requests are rounded otherwise", _block(*next(iter(finer.items()))))
    limits = ["a large block itself is rounded otherwise: " + _block(*next(iter(finer.items())))]
    shared = [s for s, n in seen.segments.items() if s < SEGMENTS_OWN and n != _next(s, LARGE_STEP)]
    if shared:
        size = shared[0]
        limits.append(
            f"below 10 MiB the driver is asked for more, which others share: for {size:,} B "
            f"{seen.segments[size]:,} B"
        )
    return within_limits(
        f"{told}; for requests of 10 MiB and more the driver is asked for the next one of 2 MiB",
        *limits,
    )


def _next(size: int, step: int) -> int:
    return -(-size // step) * step


def _block(size: int, block: int) -> str:
    return f"a tensor of {size:,} B has a block of {block:,} B"


@claim(
    id="cache-rounding",
    statement="the caching allocator rounds small requests to 512 B and large ones to 2 MiB",
    source=("003 §12.2 Mechanism",),
    needs=("cuda",),
    decide=rounded_as_stated,
    snippet="""
        import torch
        from torch import cuda

        for size in (1, 513, 3 * 2**20, 33 * 2**20):
            cuda.empty_cache()
            x = torch.empty(size, dtype=torch.uint8, device="cuda")
            print(size, cuda.memory_allocated(), cuda.memory_reserved())
            del x
    """,
)
def cache_rounding(device: Hardware) -> Rounded:
    """The block that a tensor gets, and what is taken from the driver for it, in an empty cache.

    For six sizes below 1 MiB and seven above it.
    """
    blocks, segments = {}, {}
    for size in (*SMALL, *LARGE):
        allocator_of(device).release_unused()
        before = reserved(device)
        tensor, seen = watched(partial(taken, size, device), device)
        blocks[size] = seen.allocated_bytes
        segments[size] = reserved(device) - before
        del tensor
    return Rounded(
        small={size: blocks[size] for size in SMALL},
        large={size: blocks[size] for size in LARGE},
        segments={size: segments[size] for size in LARGE},
        settings=os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF"),
    )


def reserved(device: Hardware) -> int:
    """What the allocator holds from the driver now."""
    found = allocator_of(device).pools().reserved_bytes
    assert found is not None
    return found


HELD = 256 * MIB
SHARED = 5 * MIB  # four of these share a segment
PATTERN = 7


@dataclass(frozen=True)
class Freed:
    """What the allocator and the driver say after each step."""

    size: Annotated[int, "a tensor", "B"]
    kept: Annotated[int, "still reserved once it is freed", "B"]
    kept_by_driver: Annotated[int, "given back to the driver by then, as that says", "B"]
    same_block: Annotated[bool, "the next tensor of that size gets its memory"]
    returned: Annotated[int, "no longer reserved after empty_cache", "B"]
    returned_by_driver: Annotated[int, "given back to the driver by then, as that says", "B"]
    shared: Annotated[int, "a tensor that shares its segment with three", "B"]
    shared_left: Annotated[int, "reserved for it once the three are freed, after empty_cache", "B"]
    intact: Annotated[bool, "its elements and its address are as before"]


def kept_until_emptied(seen: Freed) -> Verdict:
    """Refuted if freeing gives memory back to the driver, or empty_cache does not.

    By the allocator's own count in full; the driver's, which other processes change too, must agree
    by more than half. Refuted, too, if empty_cache changes or moves a tensor that is in use, or
    leaves less reserved than that takes; else holds.
    """
    if seen.kept < seen.size or 2 * seen.kept_by_driver > seen.size:
        return refuted(
            "freeing gives memory back",
            f"of {seen.size:,} B {seen.kept:,} B were still reserved, and the driver had "
            f"{seen.kept_by_driver:,} B more",
        )
    if seen.returned < seen.size or 2 * seen.returned_by_driver < seen.size:
        return refuted(
            "empty_cache keeps it",
            f"of {seen.size:,} B {seen.returned:,} B were no longer reserved, and the driver had "
            f"{seen.returned_by_driver:,} B more",
        )
    if not seen.intact or seen.shared_left < seen.shared:
        return refuted(
            "empty_cache touched what is in use",
            f"{seen.shared_left:,} B were left for a tensor of {seen.shared:,} B",
        )
    again = "was used again by the next tensor" if seen.same_block else "was not used again"
    return holds(
        f"{seen.size:,} B stayed reserved, {again} and went back with empty_cache; a tensor of "
        f"{seen.shared:,} B that was in use kept {seen.shared_left:,} B from going back"
    )


@claim(
    id="free-keeps",
    statement="freeing a tensor does not return memory to the driver; empty_cache does; it does "
    "not shrink what is in use",
    source=("003 §12.2 Mechanism", "003 §12.3 empty_cache"),
    needs=("cuda",),
    decide=kept_until_emptied,
    snippet="""
        import torch
        from torch import cuda

        x = torch.empty(2**28, dtype=torch.uint8, device="cuda")
        print(cuda.memory_allocated(), cuda.memory_reserved())
        del x
        print(cuda.memory_allocated(), cuda.memory_reserved())
        cuda.empty_cache()
        print(cuda.memory_allocated(), cuda.memory_reserved())
    """,
)
def free_keeps(device: Hardware) -> Freed:
    """What is reserved, and what the driver has free, when a tensor of 256 MiB is made and freed.

    And after empty_cache. The same of a tensor that shares a segment with three others, which are
    freed.
    """
    allocator = allocator_of(device)
    allocator.release_unused()
    empty = reserved(device)
    tensor = taken(HELD, device)
    address, free = tensor.data_ptr(), allocator.driver_free_bytes()
    del tensor
    device.synchronize()
    kept, kept_by_driver = reserved(device) - empty, allocator.driver_free_bytes() - free
    same_block = taken(HELD, device).data_ptr() == address
    before = reserved(device)
    allocator.release_unused()
    returned, returned_by_driver = before - reserved(device), allocator.driver_free_bytes() - free
    shared_left, intact = _beside_freed(device)
    return Freed(
        size=HELD,
        kept=kept,
        kept_by_driver=kept_by_driver,
        same_block=same_block,
        returned=returned,
        returned_by_driver=returned_by_driver,
        shared=SHARED,
        shared_left=shared_left,
        intact=intact,
    )


def _beside_freed(device: Hardware) -> tuple[int, bool]:
    """What is left reserved for one of four tensors, and whether it is as it was."""
    allocator = allocator_of(device)
    empty = reserved(device)
    tensors = [taken(SHARED, device).fill_(PATTERN) for _ in range(4)]
    address = tensors[1].data_ptr()
    tensors = [tensors[1]]
    allocator.release_unused()
    left = reserved(device) - empty  # before the comparison takes memory, too
    return left, tensors[0].data_ptr() == address and bool((tensors[0] == PATTERN).all())
