"""Why memory that is free may not be had: blocks of another stream, and caches in pieces."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from bench.claims.chapters.caching import MIB, allocator_of, reserved, taken
from bench.claims.claim import Verdict, claim, holds, inconclusive, refuted, within_limits
from bench.devices import Cuda, CudaStream, Hardware

BLOCK = 32 * MIB
BUSY_S = 0.3  # far longer than the few calls that are made meanwhile


@dataclass(frozen=True)
class Reused:
    """Whether the next tensor of a size got the block of a freed one."""

    own: Annotated[bool, "on the stream that it was taken on"]
    own_busy: Annotated[bool, "that stream still had work to do, when another one asked"]
    other_busy: Annotated[bool, "on another stream, while that work is not done"]
    other_idle: Annotated[bool, "on another stream, once all work is done"]
    user_busy: Annotated[bool, "a stream that used it still had work to do, when its own asked"]
    recorded_busy: Annotated[bool, "on its own, while a stream of record_stream uses it"]
    recorded_idle: Annotated[bool, "on its own, once that stream's work is done"]


def not_until_events_confirm(seen: Reused) -> Verdict:
    """Refuted if another stream gets the block while work of the first is not done.

    Refuted, too, if its own gets it while a stream of record_stream is not done. Holds if each gets
    it once all work is done; within limits if one does not get it then either; undecided if the
    work was over too soon, or the block is not even used again by its own stream.
    """
    if not (seen.own and seen.own_busy and seen.user_busy):
        return inconclusive("the work was over too soon, or freed blocks are not used again at all")
    if seen.other_busy:
        return refuted("another stream got it", "a block freed on a busy stream went to another")
    if seen.recorded_busy:
        told = "a block went back to its own stream while one of record_stream used it"
        return refuted("events were not waited for", told)
    limits = []
    if not seen.other_idle:
        limits.append(
            "another stream does not get it once all work is done either: the block stays with the "
            "stream that it was taken on until it is returned to the driver"
        )
    if not seen.recorded_idle:
        limits.append("after record_stream its own stream does not get it again either")
    told = "while work is not done, no other stream gets the block" + (
        "; after record_stream its own gets it again once that work is done"
        if seen.recorded_idle
        else ""
    )
    return within_limits(told, *limits) if limits else holds(told)


@claim(
    id="stream-reuse",
    statement="a block freed on one stream is not reused on another until events confirm",
    source=("003 §12.2 Mechanism",),
    needs=("cuda",),
    decide=not_until_events_confirm,
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
def stream_reuse(device: Hardware) -> Reused:
    """Addresses of tensors of one size, taken and freed on two streams.

    With the first kept busy, with all work done, and with a block that the second stream uses and
    record_stream was told of.
    """
    assert isinstance(device, Cuda)
    allocator_of(device).release_unused()
    one, other = device.stream(), device.stream()
    return Reused(*_freed(device, one, other), *_recorded(device, one, other))


def _freed(device: Cuda, one: CudaStream, other: CudaStream) -> tuple[bool, bool, bool, bool]:
    """Reused by its own stream; still busy, reused by another meanwhile, and once that is over."""
    with device.on(one):
        address = taken(BLOCK, device).data_ptr()
        own = taken(BLOCK, device).data_ptr() == address
        device.hold(BUSY_S)
        end = device.mark()
    with device.on(other):
        meanwhile = taken(BLOCK, device)
    busy = not end.reached()
    device.synchronize()
    with device.on(other):  # beside the block that this stream has by now
        afterwards = taken(BLOCK, device)
    return own, busy, meanwhile.data_ptr() == address, afterwards.data_ptr() == address


def _recorded(device: Cuda, one: CudaStream, other: CudaStream) -> tuple[bool, bool, bool]:
    """The stream that was recorded still busy; reused by its own meanwhile, and once it is over."""
    with device.on(one):
        used = taken(BLOCK, device)
    address = used.data_ptr()
    with device.on(other):
        device.hold(BUSY_S)
        used.record_stream(other)
        end = device.mark()
    del used
    with device.on(one):
        meanwhile = taken(BLOCK, device)
        busy = not end.reached()
        device.synchronize()
        afterwards = taken(BLOCK, device)
    return busy, meanwhile.data_ptr() == address, afterwards.data_ptr() == address


WHOLE = 200 * MIB
WHOLES = 5
COARSE = 40 * MIB
FINE = 5 * MIB  # below the 20 MiB of a page of an expandable segment
REQUEST = 400 * MIB
SLACK = 2 * MIB


@dataclass(frozen=True)
class Tried:
    """A request that the driver has no memory for, and what the cache had free."""

    free: int
    served: bool
    message: str | None
    expandable: bool  # whether the cache lies in expandable segments


@dataclass(frozen=True)
class Fragmented:
    """Whether a request is served from a cache that has twice as much free, in pieces or not."""

    request: Annotated[int, "the request", "B"]
    free: Annotated[int, "free in the cache, in pieces", "B"]
    served_whole: Annotated[bool, "served where segments are free as a whole"]
    served_pieces: Annotated[bool, "served where each has one tensor in use"]
    message: Annotated[str | None, "what torch says then"]
    expandable: Annotated[bool, "expandable segments are to be had here"]
    served_expandable: Annotated[bool, "served with expandable segments"]
    free_fine: Annotated[int, "free in the cache, in pieces of 15 MiB", "B"]
    served_fine: Annotated[bool, "served with expandable segments, of pieces of 15 MiB"]


def pieces_fail_and_expandable_mends(seen: Fragmented) -> Verdict:
    """Refuted if the request is served from pieces, or expandable segments do not serve it.

    Within limits if they do not where pieces are smaller than their pages; else holds. Undecided if
    the request is not served from whole segments either, if fewer bytes are free than it asks for,
    or where there are no expandable segments.
    """
    if not seen.served_whole or seen.free < seen.request:
        return inconclusive("the request is not served where segments are free as a whole either")
    asked = f"{seen.request:,} B asked of {seen.free:,} B that are free in the cache"
    if seen.served_pieces:
        return refuted("pieces served it", f"{asked}, in pieces: served")
    if not seen.expandable:
        return inconclusive("torch has no expandable segments on this platform")
    if not seen.served_expandable:
        return refuted("expandable segments do not mend it", f"{asked}, in pieces: out of memory")
    told = f"{asked}: out of memory, as they lie in pieces; served with expandable segments"
    if seen.served_fine or seen.free_fine < seen.request:
        return holds(told)
    return within_limits(
        told,
        f"not where tensors in use lie closer than the segments' pages of 20 MiB: "
        f"{seen.free_fine:,} B free in pieces of 15 MiB do not serve it",
    )


@claim(
    id="fragmentation",
    statement="a cache in pieces fails a request smaller than its sum; expandable segments mend it",
    source=("003 §12.5 Fragmentation", "003 Exercise 5"),
    needs=("cuda",),
    decide=pieces_fail_and_expandable_mends,
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
def fragmentation(device: Hardware) -> Fragmented:
    """A request of 400 MiB to a cache of 1000 MiB, most of which is free, when the driver has none.

    The cache is of five segments, free as a whole, with one tensor of 40 MiB in use in each, and
    the same with expandable segments; then with one tensor in use in every 20 MiB.
    """
    whole = _tried(device, expandable=False, piece=COARSE, every=None)
    plain = _tried(device, expandable=False, piece=COARSE, every=WHOLE)
    mended = _tried(device, expandable=True, piece=COARSE, every=WHOLE)
    fine = _tried(device, expandable=True, piece=FINE, every=4 * FINE)
    return Fragmented(
        request=REQUEST,
        free=plain.free,
        served_whole=whole.served,
        served_pieces=plain.served,
        message=plain.message,
        expandable=mended.expandable,
        served_expandable=mended.served,
        free_fine=fine.free,
        served_fine=fine.served,
    )


def _tried(device: Hardware, expandable: bool, piece: int, every: int | None) -> Tried:
    """Fills the cache, keeps one piece in use in `every` so many bytes, and asks for REQUEST."""
    allocator = allocator_of(device)
    kind: AbstractContextManager[None] = allocator.expandable_segments(expandable)
    with kind:
        wholes = [taken(WHOLE, device) for _ in range(WHOLES)]
        wholes.clear()
        pieces = [taken(piece, device) for _ in range(WHOLES * WHOLE // piece)]
        kept = pieces[:: every // piece] if every else []
        pieces.clear()
        expands = allocator.expandable_bytes() > 0
        free = reserved(device) - sum(tensor.nbytes for tensor in kept)
        with allocator.reserving_at_most(SLACK):
            message = _refusal(device)
        kept.clear()
    return Tried(free, message is None, message, expands)


def _refusal(device: Hardware) -> str | None:
    """What torch says to the request; None if it is served."""
    try:
        tensor: Tensor = taken(REQUEST, device)
    except torch.OutOfMemoryError as error:
        return str(error)
    del tensor
    return None
