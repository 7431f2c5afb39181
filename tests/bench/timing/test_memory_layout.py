"""Memory that is placed anew: only addresses change."""

from __future__ import annotations

import random
import weakref
from itertools import pairwise

import pytest
import torch
from torch import nn

from modescope.bench.devices.devices import Cpu
from modescope.bench.steps.evidence.mode_effect import read_compiled
from modescope.bench.timing import memory_layout
from modescope.bench.timing.memory_layout import LARGEST_MOVED_BYTES, MOST_MOVED_BYTES
from tests.helpers.simulated import SimulatedDevice


def _addresses(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def test_every_redraw_moves_the_tensors_and_nothing_else() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    x = torch.rand(4, 8)
    tensors = [*module.parameters(), *module.buffers(), x]
    identities, values = list(map(id, tensors)), [tensor.clone() for tensor in tensors]
    expected = module(x)
    redraw = memory_layout.anew(tensors, Cpu(), 0)
    seen = [_addresses(tensors)]
    for _ in range(8):
        held = redraw()
        seen.append(_addresses(tensors))
        del held
    assert list(map(id, [*module.parameters(), *module.buffers(), x])) == identities
    assert all(torch.equal(a, b) for a, b in zip(tensors, values, strict=True))
    assert torch.equal(module(x), expected)
    for before, after in pairwise(seen):
        moved = [a != b for a, b in zip(before, after, strict=True)]
        assert all(moved)


def test_a_step_that_records_for_backward_still_does() -> None:
    weight = nn.Parameter(torch.ones(3))
    held = memory_layout.anew([weight], Cpu(), 0)()
    (weight * 2).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]
    del held


@pytest.mark.parametrize(
    "make",
    [
        lambda: (lambda base: [base, base[2:]])(torch.rand(8)),
        lambda: [torch.rand(4, 1).expand(4, 8)],
        lambda: [torch.rand(64)[::2]],
        lambda: [torch.empty(LARGEST_MOVED_BYTES // 4 + 1)],
        lambda: [torch.empty(0)],
        lambda: [torch.rand(4).to_sparse()],
    ],
    ids=["views", "expanded", "strided", "large", "empty", "sparse"],
)
def test_shared_or_unusual_memory_is_not_moved(make: object) -> None:
    tensors = make()  # type: ignore[operator]
    dense = [tensor for tensor in tensors if tensor.layout == torch.strided]
    before = _addresses(dense)
    held = memory_layout.anew(tensors, Cpu(), 0)()
    assert _addresses(dense) == before
    del held


def test_inference_tensors_are_not_moved() -> None:
    with torch.inference_mode():
        tensor = torch.rand(4)
    before = tensor.data_ptr()
    held = memory_layout.anew([tensor], Cpu(), 0)()
    assert tensor.data_ptr() == before
    del held


def test_strides_are_kept() -> None:
    tensor = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    strides, before = tensor.stride(), tensor.data_ptr()
    held = memory_layout.anew([tensor], Cpu(), 0)()
    assert tensor.stride() == strides
    assert tensor.data_ptr() != before
    del held


def test_a_tensor_given_twice_is_moved_once() -> None:
    tensor = torch.rand(16)
    before = tensor.data_ptr()
    held = memory_layout.anew([tensor, tensor], Cpu(), 0)()
    assert tensor.data_ptr() != before
    del held


def test_a_redraw_copies_at_most_its_limit() -> None:
    size = LARGEST_MOVED_BYTES
    tensors = [torch.empty(size, dtype=torch.uint8) for _ in range(MOST_MOVED_BYTES // size + 3)]
    before = _addresses(tensors)
    held = memory_layout.anew(tensors, Cpu(), 0)()
    moved = sum(a != b for a, b in zip(before, _addresses(tensors), strict=True))
    assert moved == MOST_MOVED_BYTES // size
    del held


def test_every_redraw_changes_the_heap() -> None:
    draw = random.Random(0)
    sizes = [len(held) for held in (memory_layout.heap(draw) for _ in range(20)) if held]  # type: ignore[arg-type]
    assert len(set(sizes)) > 10


class Blocks(list[bytearray]):
    """A list to which weak references are possible."""


@pytest.mark.parametrize("queues", [True, False])
def test_every_redraw_frees_the_previous_layout_of_the_heap(
    queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[weakref.ref[Blocks]] = []
    sizes: list[int] = []
    heap = memory_layout.heap

    def counted(draw: random.Random) -> Blocks:
        blocks = Blocks()
        blocks.extend(heap(draw))  # type: ignore[arg-type]
        drawn.append(weakref.ref(blocks))
        sizes.append(len(blocks))
        return blocks

    monkeypatch.setattr(memory_layout, "heap", counted)
    redraw = memory_layout.anew([torch.rand(4)], SimulatedDevice(queues=queues), 0)
    for redraws in range(1, 9):
        held = redraw()
        assert len(drawn) == redraws
        assert drawn[-1]() is not None
        del held
        assert drawn[-1]() is None
    assert len(set(sizes)) == len(sizes)  # drawn by the seed, so the same each time that this runs


@pytest.mark.parametrize(("queues", "moves"), [(True, False), (False, True)])
def test_on_a_device_with_a_queue_tensors_are_not_moved(queues: bool, moves: bool) -> None:
    """A captured graph holds their addresses."""
    tensor = torch.rand(4)
    before = tensor.data_ptr()
    held = memory_layout.anew([tensor], SimulatedDevice(queues=queues), 0)()
    assert (tensor.data_ptr() != before) is moves
    del held


def test_moved_tensors_cause_no_recompilation() -> None:
    module = nn.Linear(4, 4)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x = torch.rand(2, 4)
    expected = compiled(x)
    before = read_compiled()
    redraw = memory_layout.anew([*module.parameters(), x], Cpu(), 0)
    for _ in range(3):
        held = redraw()
        assert torch.equal(compiled(x), expected)
        del held
    assert read_compiled().since(before).compilations == 0
