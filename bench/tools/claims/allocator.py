"""CUDA's caching allocator: sizes, what is given back when, streams, and pieces."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from modescope.bench.devices.cuda import Cuda, CudaStream
from modescope.bench.devices.cuda_allocator import CudaAllocator
from modescope.bench.devices.devices import Hardware, Mark
from modescope.bench.tools.claims.claim import Answer, claim, judged, say, undecided
from modescope.bench.tools.claims.measuring import watched

MIB = 2**20


def cache_of(device: Hardware) -> CudaAllocator:
    """The caching allocator, which alone has what these claims speak of."""
    assert isinstance(device.allocator, CudaAllocator)
    return device.allocator


def taken(size: int, device: Hardware) -> Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device=device.torch_device)


def reserved(device: Hardware) -> int:
    """What the allocator holds from the driver now."""
    reserved_bytes = cache_of(device).pools().reserved_bytes
    assert reserved_bytes is not None
    return reserved_bytes


@claim(
    "the caching allocator rounds small requests to 512 B and large ones to 2 MiB",
    "003 §12.2 Mechanism",
    needs="cuda",
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
def cache_rounding(device: Hardware) -> Answer:
    """Blocks of tensors of 13 sizes, and what the driver gives for each, in an empty cache.

    Refuted if a block for less than 1 MiB is not the next multiple of 512 B. Holds if each for more
    is the next multiple of 2 MiB. Otherwise within limits if at least what the driver gives for
    10 MiB or more is that multiple, refuted if not.
    """
    small = 1, 511, 513, 1_000, 100_001, MIB - 1
    large = MIB + 1, 3 * MIB, 9 * MIB + 1, 10 * MIB + 1, 11 * MIB, 33 * MIB, 101 * MIB + 1
    blocks, segments = {}, {}
    for size in (*small, *large):
        cache_of(device).release_unused()
        before = reserved(device)
        tensor, allocations = watched(partial(taken, size, device), device)
        blocks[size], segments[size] = allocations.allocated_bytes, reserved(device) - before
        del tensor
    return rounded(blocks, segments)


def rounded(blocks: Mapping[int, int], segments: Mapping[int, int]) -> Answer:
    """The verdict on blocks and on what the driver gave, by the bytes that were asked for."""
    small = {
        f"block for {size:,} B [B]": block
        for size, block in blocks.items()
        if size < MIB and block != -(-size // 512) * 512
    }
    large = [s for s in blocks if s > MIB and blocks[s] != _next(s)]
    given = [s for s in blocks if s > MIB and segments[s] != _next(s)]
    numbers = {f"block for {size:,} B [B]": block for size, block in blocks.items()}
    numbers |= {f"from the driver for {size:,} B [B]": segments[size] for size in segments}
    wrong = small or (numbers if large and any(size >= 10 * MIB for size in given) else {})
    limits = [f"the block for {size:,} B has {blocks[size]:,} B" for size in large]
    if large:
        limits += [f"the driver gives {segments[size]:,} B for {size:,} B" for size in given]
    return judged("small blocks are rounded to 512 B", numbers, wrong, limits)


def _next(size: int) -> int:
    """The next multiple of 2 MiB."""
    return -(-size // (2 * MIB)) * 2 * MIB


HELD, SHARED = 256 * MIB, 5 * MIB  # four of SHARED are in one segment


@claim(
    "freeing a tensor does not return memory to the driver; empty_cache does; it does not shrink "
    "what is in use",
    "003 §12.2 Mechanism; 003 §12.3 empty_cache",
    needs="cuda",
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
def free_keeps(device: Hardware) -> Answer:
    """What the allocator holds, and what the driver got, when 256 MiB are freed, then returned.

    The same of a tensor of 5 MiB that shares a segment with three others, which are freed. Refuted
    unless memory stays until empty_cache, and what is in use after it. Of the driver's own count
    half counts, as other processes change it, too.
    """
    cache = cache_of(device)
    cache.release_unused()
    empty = reserved(device)
    tensor, driver = taken(HELD, device), cache.driver_free_bytes()
    del tensor
    kept, early = reserved(device) - empty, cache.driver_free_bytes() - driver
    cache.release_unused()
    returned, late = empty + kept - reserved(device), cache.driver_free_bytes() - driver
    empty = reserved(device)
    used = [taken(SHARED, device).fill_(7) for _ in range(4)][1]
    cache.release_unused()
    shared = reserved(device) - empty  # before the comparison takes memory, too
    numbers: dict[str, int] = {
        "still reserved once it is freed [B]": kept,
        "given back by then, by the driver's count [B]": early,
        "no longer reserved after empty_cache [B]": returned,
        "given back after that, by the driver's count [B]": late,
        "reserved for a tensor in use after empty_cache [B]": shared,
        "that tensor keeps its elements": bool((used == 7).all()),
    }
    stays = kept >= HELD and 2 * early <= HELD and shared >= SHARED and bool((used == 7).all())
    because = "memory stays until empty_cache, what is in use longer"
    stated = stays and returned >= HELD and 2 * late >= HELD
    return judged(because, numbers, {} if stated else numbers)


BLOCK = 32 * MIB
BUSY_S = 0.3  # far longer than the few calls that are made meanwhile


@claim(
    "a block freed on one stream is not reused on another until events confirm",
    "003 §12.2 Mechanism",
    needs="cuda",
    snippet="""
        import torch
        from torch import cuda

        one, other = cuda.Stream(), cuda.Stream()
        with cuda.stream(one):
            address = torch.empty(2**25, device="cuda").data_ptr()
        cuda.synchronize()
        for stream in (other, one):
            with cuda.stream(stream):
                print(torch.empty(2**25, device="cuda").data_ptr() == address)
    """,
)
def stream_reuse(device: Hardware) -> Answer:
    """Addresses of tensors of one size, taken and freed on two streams, with one kept busy.

    Then of a block that the second stream uses, too, which record_stream is told. Refuted if a
    stream gets the block while another is busy with it, undecided if none was busy or a stream does
    not get its own block again. A limit if it does not once all work is done.
    """
    assert isinstance(device, Cuda)
    cache_of(device).release_unused()
    one, other = device.stream(), device.stream()
    with device.on(one):
        address = taken(BLOCK, device).data_ptr()
        own = taken(BLOCK, device).data_ptr() == address
        device.hold(BUSY_S)
        end = device.mark()
    by_other = _asked(device, other, end, address)
    with device.on(one):
        used = taken(BLOCK, device)
    address = used.data_ptr()
    with device.on(other):
        device.hold(BUSY_S)
        used.record_stream(other)
        end = device.mark()
    del used
    return reused(own, by_other, _asked(device, one, end, address))


Asked = tuple[bool, bool, bool]
"""Whether work went on when a stream asked, it got the block then, and it got it afterwards."""


def _asked(device: Cuda, stream: CudaStream, end: Mark, address: int) -> Asked:
    with device.on(stream):
        meanwhile = taken(BLOCK, device)
        busy = not end.reached()
        device.synchronize()
        afterwards = taken(BLOCK, device)  # beside the block that this stream has by now
    return busy, meanwhile.data_ptr() == address, afterwards.data_ptr() == address


def reused(own: bool, other: Asked, recorded: Asked) -> Answer:
    """The verdict on another stream's requests, and on the own one's after record_stream."""
    numbers = {"a freed block is used again on its stream": own}
    asking = {"another stream": other, "its own, after record_stream": recorded}
    for who, (busy, meanwhile, afterwards) in asking.items():
        numbers |= {f"{who}: work goes on": busy, f"{who}: gets the block then": meanwhile}
        numbers[f"{who}: gets it once all is done"] = afterwards
    if not own or not other[0] or not recorded[0]:
        return undecided(say(numbers), numbers)
    wrong = numbers if other[1] or recorded[1] else {}
    limits = [f"{who}: not once all is done, either" for who, got in asking.items() if not got[2]]
    return judged("no stream gets a block that another is busy with", numbers, wrong, limits)


REQUEST = 400 * MIB


@claim(
    "a cache in pieces fails a request smaller than its sum; expandable segments mend it",
    "003 §12.5 Fragmentation; 003 Exercise 5",
    needs="cuda",
    snippet="""
        import torch
        from torch import cuda

        make = lambda mib: torch.empty(mib * 2**20, dtype=torch.uint8, device="cuda")
        wholes = [make(200) for _ in range(5)]
        wholes.clear()
        kept = [make(40) for _ in range(25)][::5]
        cuda.set_per_process_memory_fraction(2**30 / cuda.mem_get_info()[1])
        try: make(400)
        except torch.OutOfMemoryError: print(cuda.memory_reserved() - cuda.memory_allocated())
    """,
)
def fragmentation(device: Hardware) -> Answer:
    """A request of 400 MiB to a cache of five segments of 200 MiB, when the driver has none.

    Undecided unless it is served with nothing in use. Refuted if it is with 40 MiB in use in each
    segment, or is not then with expandable ones. A limit if these do not serve it with 5 MiB in use
    of every 20, the size of their pages.
    """
    whole = served(device, expandable=False, piece=40 * MIB, used=slice(0))
    pieces = served(device, expandable=False, piece=40 * MIB, used=slice(None, None, 5))
    coarse = served(device, expandable=True, piece=40 * MIB, used=slice(None, None, 5))
    fine = served(device, expandable=True, piece=5 * MIB, used=slice(None, None, 4))
    return mended(whole, pieces, coarse, fine)


Served = tuple[bool, int, bool]
"""Whether the request is served, the bytes free in the cache, and if segments are expandable."""


def served(device: Hardware, expandable: bool, piece: int, used: slice) -> Served:
    """A cache whose pieces are free but for those in use is asked for REQUEST."""
    cache, is_served = cache_of(device), False
    with cache.expandable_segments(expandable):
        wholes = [taken(200 * MIB, device) for _ in range(5)]
        wholes.clear()
        kept = [taken(piece, device) for _ in range(1000 * MIB // piece)][used]
        expands = cache.expandable_bytes() > 0
        free = reserved(device) - sum(tensor.nbytes for tensor in kept)
        with cache.limit_reserved(2 * MIB), suppress(torch.OutOfMemoryError):
            taken(REQUEST, device)
            is_served = True
        kept.clear()
    return is_served, free, expands


def mended(whole: Served, pieces: Served, coarse: Served, fine: Served) -> Answer:
    """The verdict on the same request to four caches, the last two with expandable segments."""
    numbers: dict[str, int] = {}
    caches = {"whole": whole, "in pieces": pieces, "expandable": coarse, "expandable, fine": fine}
    for name, (is_served, free, _) in caches.items():
        numbers |= {f"{name}: free [B]": free, f"{name}: served": is_served}
    if not whole[0] or pieces[1] < REQUEST or not coarse[2]:
        return undecided("a whole cache does not serve it, or segments do not expand", numbers)
    wrong = numbers if pieces[0] or not coarse[0] else {}
    limits = [] if fine[0] or fine[1] < REQUEST else ["expandable segments: not of 15 MiB each"]
    return judged("it fails in pieces, not with expandable segments", numbers, wrong, limits)
