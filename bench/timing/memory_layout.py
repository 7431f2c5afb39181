"""Randomises the memory layout before each block, so that its effect is noise and does not last.

Two copies of one step differ by 0.2 to 4 % as long as their process lives, because of where the
allocator put their tensors: cache sets, pages and free lists. Rounds cannot average over what never
changes, so the interval of such a difference may exclude 1 although the code is the same. Moving
tensors between rounds turns the difference into noise, which the interval covers (Curtsinger and
Berger, STABILIZER: Statistically Sound Performance Evaluation, ASPLOS 2013).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from modescope.bench.devices.allocators import parts
from modescope.bench.devices.devices import Device

Redraw = Callable[[], object]
"""A function that moves tensors to other memory. The layout lasts as long as its result is held."""

SMALL_BYTES = 2048  # at most, of one small block on the heap
BLOCKS = 400
PADDING_BYTES = 2**20  # at most, before all that is moved
LARGEST_MOVED_BYTES = 2**22  # larger tensors fill caches wherever they lie
MOST_MOVED_BYTES = 2**25  # per draw: copying as much takes some 10 ms


def disturb_heap(draw: random.Random) -> object:
    """Puts malloc's free lists into a random state, which lasts as long as the result is held."""
    blocks = [bytearray(draw.randrange(1, SMALL_BYTES)) for _ in range(draw.randrange(1, BLOCKS))]
    return blocks[::2]


def make_redraw(
    tensors: Sequence[torch.Tensor],
    device: Device,
    seed: int,
    restore: Callable[[], object] = lambda: None,
) -> Redraw:
    """Returns a function that moves `tensors` and changes the heap's state at random.

    Values, shapes, strides and identities stay, so compiled code is not affected. Tensors that
    share memory or exceed 4 MiB are not moved; of the rest, at most 32 MiB per call, chosen at
    random. On a GPU only the host's heap changes, because captured graphs contain addresses of
    tensors. `restore` is called first, to undo what steps changed, so that all blocks make the same
    calls.
    """
    own = [] if device.queues else _own_memory(tensors)
    draw = random.Random(seed)

    def redraw() -> object:
        restore()
        held = [disturb_heap(draw)]
        if device.queues:
            return held
        held.append(bytearray(draw.randrange(PADDING_BYTES)))
        left = MOST_MOVED_BYTES
        for tensor in draw.sample(own, len(own)):
            left -= tensor.nbytes
            if left < 0:
                break
            held.append(bytearray(draw.randrange(SMALL_BYTES)))
            tensor.data = tensor.data.clone()
        return held

    return redraw


def _own_memory(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    wrapped = (part for tensor in tensors for part in parts(tensor))
    distinct = list({id(tensor): tensor for tensor in wrapped}.values())
    plain = [t for t in distinct if type(t) in (torch.Tensor, torch.nn.Parameter)]
    strided = [t for t in plain if t.layout == torch.strided and not t.is_nested]
    dense = [t for t in strided if not t.is_inference()]
    holders = Counter(t.untyped_storage().data_ptr() for t in dense)
    return [
        tensor
        for tensor in dense
        if 0 < tensor.nbytes <= LARGEST_MOVED_BYTES
        and tensor.nbytes == tensor.untyped_storage().nbytes()
        and holders[tensor.untyped_storage().data_ptr()] == 1
        and tensor.data.clone().stride() == tensor.stride()
    ]
