"""Memory that is placed anew: only addresses change."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence.compiler_counts import read_compiled
from modescope.bench.timing import memory_layout
from modescope.bench.timing.memory_layout import LARGEST_MOVED_BYTES, MOST_MOVED_BYTES
from tests.helpers.simulated import SimulatedDevice


def _addresses(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def test_every_redraw_moves_the_tensors_and_nothing_else() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    x = torch.rand(4, 8)
    tensors = [*module.parameters(), *module.buffers(), x]
    memory_layout.make_redraw([*tensors, torch.empty(0), x.to_sparse()], Cpu(), 0)()
    identities, values = list(map(id, tensors)), [tensor.clone() for tensor in tensors]
    expected = module(x)
    redraw = memory_layout.make_redraw(tensors, Cpu(), 0)
    seen = [_addresses(tensors)]
    for _ in range(8):
        held = redraw()
        seen.append(_addresses(tensors))
        del held
    assert list(map(id, [*module.parameters(), *module.buffers(), x])) == identities
    assert all(torch.equal(a, b) for a, b in zip(tensors, values, strict=True))
    assert torch.equal(module(x), expected)
    for before, after in pairwise(seen):
        assert all(a != b for a, b in zip(before, after, strict=True))
    module(x).sum().backward()
    assert all(each.grad is not None for each in module.parameters())


def _views() -> list[torch.Tensor]:
    base = torch.rand(8)
    return [base, base[2:]]


def _of_inference() -> list[torch.Tensor]:
    with torch.inference_mode():
        return [torch.rand(4)]


@pytest.mark.parametrize(
    ("make", "moves"),
    [
        (lambda: [torch.rand(16)] * 2, True),
        (lambda: [torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)], True),
        (_views, False),
        (lambda: [torch.rand(4, 1).expand(4, 8)], False),
        (lambda: [torch.rand(64)[::2]], False),
        (lambda: [torch.empty(LARGEST_MOVED_BYTES // 4 + 1)], False),
        (_of_inference, False),
    ],
    ids=["twice", "channels last", "views", "expanded", "strided", "large", "inference"],
)
def test_shared_or_unusual_memory_is_not_moved(
    make: Callable[[], list[torch.Tensor]], moves: bool
) -> None:
    tensors = make()
    before, strides = _addresses(tensors), [tensor.stride() for tensor in tensors]
    held = memory_layout.make_redraw(tensors, Cpu(), 0)()
    assert [a != b for a, b in zip(before, _addresses(tensors), strict=True)] == [
        moves for _ in tensors
    ]
    assert [tensor.stride() for tensor in tensors] == strides
    del held


@pytest.mark.parametrize(("queues", "moves"), [(True, False), (False, True)])
def test_on_a_device_with_a_queue_only_the_heap_changes(queues: bool, moves: bool) -> None:
    """A captured graph holds the addresses of tensors."""
    tensor = torch.rand(4)
    before = tensor.data_ptr()
    redraw = memory_layout.make_redraw([tensor], SimulatedDevice(queues=queues), 0)
    held = redraw()
    assert (tensor.data_ptr() != before) is moves
    blocks = {len(held[0]), *(len(redraw()[0]) for _ in range(19))}  # type: ignore[index]
    assert len(blocks) > 10


def test_a_redraw_copies_at_most_its_limit() -> None:
    size = LARGEST_MOVED_BYTES
    tensors = [torch.empty(size, dtype=torch.uint8) for _ in range(MOST_MOVED_BYTES // size + 3)]
    before = _addresses(tensors)
    held = memory_layout.make_redraw(tensors, Cpu(), 0)()
    moved = sum(a != b for a, b in zip(before, _addresses(tensors), strict=True))
    assert moved == MOST_MOVED_BYTES // size
    del held


def test_moved_tensors_cause_no_recompilation() -> None:
    module = nn.Linear(4, 4)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x = torch.rand(2, 4)
    expected = compiled(x)
    before = read_compiled()
    redraw = memory_layout.make_redraw([*module.parameters(), x], Cpu(), 0)
    for _ in range(3):
        held = redraw()
        assert torch.equal(compiled(x), expected)
        del held
    assert read_compiled().since(before).compilations == 0
