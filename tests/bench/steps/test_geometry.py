"""Copied, cast and redrawn inputs lie in memory as the example does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.steps import geometry
from modescope.bench.steps.subject import Inputs, Subject, keep_state, redraw

Copying = Callable[[Inputs], Inputs]

COPIES: dict[str, Copying] = {
    "copied": Inputs.copy,
    "redrawn": lambda inputs: redraw(inputs, 1),
    "cast": lambda inputs: Subject(nn.Identity(), inputs).cast(torch.float64).inputs,
    "moved": lambda inputs: Subject(nn.Identity(), inputs).to(torch.device("meta")).inputs,
}

TENSORS = {
    "transposed": torch.randn(64, 8).t(),
    "expanded": torch.randn(1, 5).expand(4, 5),
    "sliced": torch.randn(8, 128)[:, 32:64],
    "from an offset": torch.arange(40)[3:],
    "overlapping windows": torch.randn(100).unfold(0, 16, 4),
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "complex": torch.randn(4, 6, dtype=torch.complex64)[:, ::2],
    "empty": torch.randn(6, 4)[3:3],
    "one number": torch.tensor(2.0),
}


def layout(tensor: Tensor) -> tuple[object, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("example", TENSORS.values(), ids=TENSORS)
def test_copies_have_the_strides_and_the_offset_of_the_example(
    example: Tensor, copy: Copying
) -> None:
    (made,) = copy(Inputs((example,), {})).tensors()
    assert layout(made) == layout(example)
    assert not made._is_view()
    if made.device.type == "cpu" and example.numel():
        assert made.untyped_storage().data_ptr() != example.untyped_storage().data_ptr()


@pytest.mark.parametrize("example", TENSORS.values(), ids=TENSORS)
def test_inputs_that_lie_alike_are_assigned_and_put_back(example: Tensor) -> None:
    inputs = Inputs((example,), {}).copy()
    before, fresh = inputs.copy(), redraw(inputs, 2)
    inputs.assign(fresh)
    assert torch.equal(inputs.args[0], fresh.args[0])
    inputs.assign(before)
    assert torch.equal(inputs.args[0], example)


def test_fresh_expanded_inputs_differ_from_the_example() -> None:
    fresh = redraw(Inputs((TENSORS["expanded"], torch.arange(5).expand(4, 5)), {}), 1)
    assert (fresh.args[0] != TENSORS["expanded"]).any()
    assert fresh.args[1][3].sort().values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_two_parts_of_one_storage_stay_parts_of_one(copy: Copying) -> None:
    both = torch.randn(8, 6)
    left, right = copy(Inputs((both[:, :2], [both[:, 2:]]), {})).tensors()
    assert left.untyped_storage()._cdata == right.untyped_storage()._cdata


def test_only_the_part_of_a_storage_that_is_shown_is_copied() -> None:
    rows = torch.randn(2, 3 * geometry.PAGE)
    parts = rows[1, 7:12], rows[1, 12:20]
    made = Inputs(parts, {}).copy().tensors()
    assert all(map(torch.equal, made, parts))
    assert {each.untyped_storage().nbytes() for each in made} == {4 * 20}


@pytest.mark.parametrize("sparse", [Tensor.to_sparse, Tensor.to_sparse_csr], ids=["coo", "csr"])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_inputs_keep_their_places_and_get_other_values(
    sparse: Callable[[Tensor], Tensor],
) -> None:
    example = sparse(torch.randn(5, 5).triu())
    inputs = Inputs((example,), {}).copy()
    fresh = redraw(inputs, 1)
    inputs.assign(fresh)
    changed = inputs.args[0].to_dense() != example.to_dense()
    assert torch.equal(changed, example.to_dense() != 0)
    assert Subject(nn.Identity(), inputs).cast(torch.float64).inputs.args[0].dtype == torch.float64


def test_a_buffer_that_is_expanded_is_put_back() -> None:
    module = nn.Module()
    module.register_buffer("mask", torch.ones(1, 3).expand(2, 3))
    mask = module.get_buffer("mask")
    with keep_state(module):
        mask[0] = 5  # of both rows
    assert mask.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert mask.stride() == (0, 1)
