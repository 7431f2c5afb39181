"""Why memory that is free may not be had: blocks of another stream, and caches in pieces."""

from __future__ import annotations

from contextlib import suppress

import torch

from modescope.bench.devices.cuda import Cuda, CudaStream
from modescope.bench.devices.devices import Mark
from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.chapters.allocator.caching import MIB, cache_of, reserved, taken

BLOCK = 32 * MIB
BUSY_S = 0.3  # far longer than the few calls that are made meanwhile


@lab.claim(
    "a block freed on one stream is not reused on another until events confirm",
    "003 §12.2 Mechanism",
    needs="cuda",
    figures={
        "own": lab.given("a freed block is used again on its stream", True),
        "own_busy": lab.given("its stream was busy when another stream asked", True),
        "user_busy": lab.given("the stream of record_stream was busy when its own asked", True),
        "other_waits": lab.must(
            "another stream does not get the block while its own is busy", True
        ),
        "other_idle": lab.should("another stream gets the block once all work is done", True),
        "own_waits": lab.must(
            "its own stream does not get the block while that of record_stream is busy", True
        ),
        "recorded_idle": lab.should(
            "its own stream gets the block once that of record_stream is done", True
        ),
    },
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
def stream_reuse(device: lab.Hardware) -> lab.Values:
    """Addresses of tensors of one size, taken and freed on two streams, with one kept busy.

    Then of a block that the second stream uses, too, which record_stream is told.
    """
    assert isinstance(device, Cuda)
    cache_of(device).release_unused()
    one, other = device.stream(), device.stream()
    with device.on(one):
        address = taken(BLOCK, device).data_ptr()
        own = taken(BLOCK, device).data_ptr() == address
        device.hold(BUSY_S)
        end = device.mark()
    own_busy, *by_other = _asked(device, other, end, address)
    with device.on(one):
        used = taken(BLOCK, device)
    address = used.data_ptr()
    with device.on(other):
        device.hold(BUSY_S)
        used.record_stream(other)
        end = device.mark()
    del used
    user_busy, *by_own = _asked(device, one, end, address)
    return own, own_busy, user_busy, *by_other, *by_own


def _asked(device: Cuda, stream: CudaStream, end: Mark, address: int) -> tuple[bool, bool, bool]:
    """Work is not done; the stream does not get the block meanwhile; it does once it is done."""
    with device.on(stream):
        meanwhile = taken(BLOCK, device)
        busy = not end.reached()
        device.synchronize()
        afterwards = taken(BLOCK, device)  # beside the block that this stream has by now
    return busy, meanwhile.data_ptr() != address, afterwards.data_ptr() == address


WHOLE, WHOLES = 200 * MIB, 5
COARSE = 40 * MIB
FINE = 5 * MIB  # below the 20 MiB of a page of an expandable segment
REQUEST = 400 * MIB
SLACK = 2 * MIB


def smaller_than_pages(o: lab.Observed) -> lab.Rule:
    """A limit if expandable segments do not serve it where pieces are smaller than their pages."""
    enough = o.free_fine >= REQUEST
    yield lab.limit_if(enough and not o.served_fine, o.say("free_fine", "served_fine"))


@lab.claim(
    "a cache in pieces fails a request smaller than its sum; expandable segments mend it",
    "003 §12.5 Fragmentation; 003 Exercise 5",
    needs="cuda",
    rule=smaller_than_pages,
    figures={
        "served_whole": lab.given("the request is served where segments are free as a whole", True),
        "free": lab.given(
            "free in the cache, in pieces [B]",
            lambda free: free >= REQUEST,
            "more is free in pieces than the request takes",
        ),
        "fails_in_pieces": lab.must(
            "the request fails where each segment has one tensor in use", True
        ),
        "expandable": lab.given("expandable segments are to be had here", True),
        "served_expandable": lab.must("the request is served with expandable segments", True),
        "free_fine": "free in the cache, in pieces of 15 MiB [B]",
        "served_fine": "the request is served with expandable segments, of pieces of 15 MiB",
    },
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
def fragmentation(device: lab.Hardware) -> lab.Values:
    """A request of 400 MiB to a cache of 1000 MiB, most of which is free, when the driver has none.

    The cache is of five segments, free as a whole, with one tensor of 40 MiB in use in each, and
    the same with expandable segments; then with one tensor in use in every 20 MiB.
    """
    one_in_each = slice(None, None, WHOLE // COARSE)
    yield _tried(device, expandable=False, piece=COARSE, used=slice(0))[2]
    free, _, served = _tried(device, expandable=False, piece=COARSE, used=one_in_each)
    yield from (free, not served)
    yield from _tried(device, expandable=True, piece=COARSE, used=one_in_each)[1:]
    yield from _tried(device, expandable=True, piece=FINE, used=slice(None, None, 4))[::2]


def _tried(
    device: lab.Hardware, expandable: bool, piece: int, used: slice
) -> tuple[int, bool, bool]:
    """Free in the cache with some pieces in use; segments are expandable; REQUEST is served."""
    cache, served = cache_of(device), False
    with cache.expandable_segments(expandable):
        wholes = [taken(WHOLE, device) for _ in range(WHOLES)]
        wholes.clear()
        kept = [taken(piece, device) for _ in range(WHOLES * WHOLE // piece)][used]
        expands = cache.expandable_bytes() > 0
        free = reserved(device) - sum(tensor.nbytes for tensor in kept)
        with cache.reserving_at_most(SLACK), suppress(torch.OutOfMemoryError):
            taken(REQUEST, device)
            served = True
        kept.clear()
    return free, expands, served
