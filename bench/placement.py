"""Where things lie in memory, drawn anew again and again so that no mode keeps its luck.

Two copies of one step differ by 0.2 to 4 % for as long as their process lives, because of where the
allocator happened to put what they work on: cache sets, pages and free lists. Rounds cannot average
over what never changes, so intervals around such a difference exclude 1 without a cause in the
code. What is moved between rounds becomes noise like any other, which the interval then holds
(Curtsinger and Berger, STABILIZER: Statistically Sound Performance Evaluation, ASPLOS 2013).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from bench.devices import Device

Redraw = Callable[[], object]
"""Puts memory elsewhere. The placement lasts for as long as the result is held."""

SMALL_BYTES = 2048  # of a block of ballast among the allocator's small ones
BLOCKS = 400
PADDING_BYTES = 2**20  # at most, before everything that is moved
LARGEST_MOVED_BYTES = 2**22  # larger tensors fill caches wherever they lie
MOST_MOVED_BYTES = 2**25  # per draw: copying them takes some 10 ms


def heap(draw: random.Random) -> object:
    """Leaves the free lists of malloc in another state until the result is dropped."""
    blocks = [bytearray(draw.randrange(1, SMALL_BYTES)) for _ in range(draw.randrange(1, BLOCKS))]
    return blocks[::2]


def anew(tensors: Sequence[torch.Tensor], device: Device, seed: int) -> Redraw:
    """What to call before each block. On a GPU only the host's heap changes.

    Tensors stay there, because a captured graph knows their addresses.
    """
    draw = random.Random(seed)
    return (lambda: heap(draw)) if device.queues else moving(tensors, seed)


def moving(tensors: Sequence[torch.Tensor], seed: int) -> Redraw:
    """A `Redraw` that gives each of the tensors other memory, and the heap another state.

    Values, shapes, strides and identities stay, so compiled code goes on as before; a captured
    graph, which knows addresses, would not. Tensors whose memory is not theirs alone are left, and
    so are those above 4 MiB; of the rest at most 32 MiB are moved at a time, chosen at random.
    """
    own = _with_memory_of_their_own(tensors)
    draw = random.Random(seed)

    def redraw() -> object:
        held = [heap(draw), bytearray(draw.randrange(PADDING_BYTES))]
        left = MOST_MOVED_BYTES
        for tensor in draw.sample(own, len(own)):
            left -= tensor.nbytes
            if left < 0:
                break
            held.append(bytearray(draw.randrange(SMALL_BYTES)))
            tensor.data = tensor.data.clone()
        return held

    return redraw


def _with_memory_of_their_own(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    distinct = list({id(tensor): tensor for tensor in tensors}.values())
    plain = [t for t in distinct if type(t) in (torch.Tensor, torch.nn.Parameter)]
    dense = [t for t in plain if t.layout == torch.strided and not t.is_inference()]
    holders = Counter(t.untyped_storage().data_ptr() for t in dense)
    return [
        tensor
        for tensor in dense
        if 0 < tensor.nbytes <= LARGEST_MOVED_BYTES
        and tensor.nbytes == tensor.untyped_storage().nbytes()
        and holders[tensor.untyped_storage().data_ptr()] == 1
        and tensor.data.clone().stride() == tensor.stride()
    ]
