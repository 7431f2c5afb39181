"""Memory that is placed anew: everything but the addresses stays as it was."""

from __future__ import annotations

import random
import weakref
from itertools import pairwise

import pytest
import torch
from torch import nn

from bench import placement
from bench.evidence import compiled_so_far
from bench.placement import LARGEST_MOVED_BYTES, MOST_MOVED_BYTES
from bench.testbed.simulated import SimulatedDevice


def _addresses(tensors: list[torch.Tensor]) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def test_every_redraw_moves_the_tensors_and_nothing_else() -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).eval()
    x = torch.rand(4, 8)
    tensors = [*module.parameters(), *module.buffers(), x]
    identities, values = list(map(id, tensors)), [tensor.clone() for tensor in tensors]
    expected = module(x)
    redraw = placement.moving(tensors, 0)
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
    held = placement.moving([weight], 0)()
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
def test_memory_that_is_shared_or_odd_is_left(make: object) -> None:
    tensors = make()  # type: ignore[operator]
    dense = [tensor for tensor in tensors if tensor.layout == torch.strided]
    before = _addresses(dense)
    held = placement.moving(tensors, 0)()
    assert _addresses(dense) == before
    del held


def test_tensors_born_in_inference_mode_are_left() -> None:
    with torch.inference_mode():
        tensor = torch.rand(4)
    before = tensor.data_ptr()
    held = placement.moving([tensor], 0)()
    assert tensor.data_ptr() == before
    del held


def test_strides_survive() -> None:
    tensor = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    strides, before = tensor.stride(), tensor.data_ptr()
    held = placement.moving([tensor], 0)()
    assert tensor.stride() == strides
    assert tensor.data_ptr() != before
    del held


def test_a_tensor_named_twice_is_moved_once_and_stays_tied() -> None:
    tensor = torch.rand(16)
    before = tensor.data_ptr()
    held = placement.moving([tensor, tensor], 0)()
    assert tensor.data_ptr() != before
    del held


def test_a_draw_copies_no_more_than_its_limit() -> None:
    size = LARGEST_MOVED_BYTES
    tensors = [torch.empty(size, dtype=torch.uint8) for _ in range(MOST_MOVED_BYTES // size + 3)]
    before = _addresses(tensors)
    held = placement.moving(tensors, 0)()
    moved = sum(a != b for a, b in zip(before, _addresses(tensors), strict=True))
    assert moved == MOST_MOVED_BYTES // size
    del held


def test_the_heap_is_left_in_another_state_each_time() -> None:
    draw = random.Random(0)
    sizes = [len(held) for held in (placement.heap(draw) for _ in range(20)) if held]  # type: ignore[arg-type]
    assert len(set(sizes)) > 10


class Blocks(list[bytearray]):
    """A list that can be watched for its end."""


@pytest.mark.parametrize("queues", [True, False])
def test_every_redraw_draws_the_heap_anew_and_holds_it(
    queues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[weakref.ref[Blocks]] = []
    sizes: list[int] = []
    heap = placement.heap

    def counted(draw: random.Random) -> Blocks:
        blocks = Blocks()
        blocks.extend(heap(draw))  # type: ignore[arg-type]
        drawn.append(weakref.ref(blocks))
        sizes.append(len(blocks))
        return blocks

    monkeypatch.setattr(placement, "heap", counted)
    redraw = placement.anew([torch.rand(4)], SimulatedDevice(queues=queues), 0)
    for redraws in range(1, 9):
        held = redraw()
        assert len(drawn) == redraws
        assert drawn[-1]() is not None
        del held
        assert drawn[-1]() is None
    assert len(set(sizes)) == len(sizes)  # drawn by the seed, so the same each time that this runs


@pytest.mark.parametrize(("queues", "moves"), [(True, False), (False, True)])
def test_on_a_device_that_queues_tensors_stay(queues: bool, moves: bool) -> None:
    """A captured graph knows where they are."""
    tensor = torch.rand(4)
    before = tensor.data_ptr()
    held = placement.anew([tensor], SimulatedDevice(queues=queues), 0)()
    assert (tensor.data_ptr() != before) is moves
    del held


def test_compiled_code_goes_on_without_compiling_again() -> None:
    module = nn.Linear(4, 4)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    x = torch.rand(2, 4)
    expected = compiled(x)
    before = compiled_so_far()
    redraw = placement.moving([*module.parameters(), x], 0)
    for _ in range(3):
        held = redraw()
        assert torch.equal(compiled(x), expected)
        del held
    assert compiled_so_far().since(before).compilations == 0
