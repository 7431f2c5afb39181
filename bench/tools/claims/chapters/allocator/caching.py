"""CUDA's caching allocator: sizes of blocks and segments, and what is given back when."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.tools.claims import lab

MIB = 2**20
SMALL_STEP, LARGE_STEP = 512, 2 * MIB

SMALL = (1, 511, 513, 1_000, 100_001, MIB - 1)
LARGE = (MIB + 1, 3 * MIB, 9 * MIB + 1, 10 * MIB + 1, 11 * MIB, 33 * MIB, 101 * MIB + 1)
SEGMENTS_OWN = 10 * MIB
"""From here on a request that finds no block gets a segment of its own (AllocatorConfig.h)."""

HELD, SHARED = 256 * MIB, 5 * MIB  # four of SHARED are in one segment
PATTERN = 7


def cache_of(device: lab.Hardware) -> CudaAllocator:
    """The caching allocator, which alone has what these claims speak of."""
    assert isinstance(device.allocator, CudaAllocator)
    return device.allocator


def taken(size: int, device: lab.Hardware) -> Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device=device.torch_device)


def reserved(device: lab.Hardware) -> int:
    """What the allocator holds from the driver now."""
    reserved_bytes = cache_of(device).pools().reserved_bytes
    assert reserved_bytes is not None
    return reserved_bytes


def rounded_as_stated(o: lab.Observed) -> lab.Rule:
    """Refuted if a block for less than 1 MiB is not the next multiple of 512 B.

    Holds if each block for more is the next multiple of 2 MiB. Otherwise what is taken from the
    driver decides: within limits if it is that multiple for each request of 10 MiB or more, refuted
    if not.
    """
    small, large = _otherwise(o.small, SMALL_STEP), _otherwise(o.large, LARGE_STEP)
    yield lab.require("small blocks are the next multiples of 512 B", not small, small.say_all())
    asked = _otherwise(o.segments, LARGE_STEP) if large else lab.Cases({})
    yield lab.require(
        "for 10 MiB or more the next multiple of 2 MiB is taken from the driver"
        if large
        else "large blocks are the next multiples of 2 MiB",
        max(asked, default=0) < SEGMENTS_OWN,
        f"{large.say_all()}, {asked.say_all()}",
    )
    yield lab.limit_if(bool(large), f"large blocks are rounded otherwise: {large.say_all()}")
    below = f"what is taken for less than 10 MiB is rounded otherwise: {asked.say_all()}"
    yield lab.limit_if(bool(asked), below)


def _otherwise(cases: lab.Cases, step: int) -> lab.Cases:
    """Those that are not the next multiple of `step`."""
    return cases.only(lambda size, bytes_taken: bytes_taken != -(-size // step) * step)


@lab.claim(
    "the caching allocator rounds small requests to 512 B and large ones to 2 MiB",
    "003 §12.2 Mechanism",
    needs="cuda",
    rule=rounded_as_stated,
    figures={
        "small": "block for a tensor whose size in bytes is [B]",
        "large": "block for a tensor whose size in bytes is [B]",
        "segments": "taken from the driver for a tensor whose size in bytes is [B]",
        "settings": "PYTORCH_ALLOC_CONF",
    },
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
def cache_rounding(device: lab.Hardware) -> lab.Values:
    """Blocks of tensors of 13 sizes, and what the driver gives for each, in an empty cache."""
    blocks, segments = {}, {}
    for size in (*SMALL, *LARGE):
        cache_of(device).release_unused()
        before = reserved(device)
        tensor, allocations = lab.watched(partial(taken, size, device), device)
        blocks[size] = allocations.allocated_bytes
        segments[size] = reserved(device) - before
        del tensor
    yield {size: blocks[size] for size in SMALL}
    yield {size: blocks[size] for size in LARGE}
    yield {size: segments[size] for size in LARGE}
    yield os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")


def at_least(size: int) -> Callable[[int], bool]:
    """Whether a number of bytes is `size` or more."""
    return lambda count: count >= size


@lab.claim(
    "freeing a tensor does not return memory to the driver; empty_cache does; it does not shrink "
    "what is in use",
    "003 §12.2 Mechanism; 003 §12.3 empty_cache",
    needs="cuda",
    figures={
        "kept": lab.must(
            "still reserved once it is freed [B]",
            at_least(HELD),
            "a freed tensor's memory stays reserved",
        ),
        # half: other processes change the driver's count, too
        "kept_by_driver": lab.must(
            "given back to the driver by then, by its own count [B]",
            lambda given: 2 * given <= HELD,
            "the driver has at most half of it back by then",
        ),
        "same_block": "the next tensor of that size gets its memory",
        "returned": lab.must(
            "no longer reserved after empty_cache [B]",
            at_least(HELD),
            "empty_cache returns all of it",
        ),
        "returned_by_driver": lab.must(
            "given back to the driver after that, by its own count [B]",
            lambda given: 2 * given >= HELD,
            "the driver has at least half of it back after that",
        ),
        "shared_left": lab.must(
            "reserved for a tensor in use after empty_cache [B]",
            at_least(SHARED),
            "memory in use stays reserved",
        ),
        "intact": lab.must("a tensor in use keeps its elements and its address", True),
    },
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
def free_keeps(device: lab.Hardware) -> lab.Values:
    """What is reserved, and what the driver has, when 256 MiB are taken, freed and returned.

    The same of a tensor of 5 MiB that shares a segment with three others, which are freed.
    """
    cache = cache_of(device)
    cache.release_unused()
    empty = reserved(device)
    tensor = taken(HELD, device)
    address, free = tensor.data_ptr(), cache.driver_free_bytes()
    del tensor
    device.synchronize()
    yield from (reserved(device) - empty, cache.driver_free_bytes() - free)
    yield taken(HELD, device).data_ptr() == address
    before = reserved(device)
    cache.release_unused()
    yield from (before - reserved(device), cache.driver_free_bytes() - free)
    empty = reserved(device)
    kept = [taken(SHARED, device).fill_(PATTERN) for _ in range(4)][1]
    address = kept.data_ptr()
    cache.release_unused()
    yield reserved(device) - empty  # before the comparison takes memory, too
    yield kept.data_ptr() == address and bool((kept == PATTERN).all())
