"""Copied, cast and redrawn inputs lie in memory as the example does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.model import geometry
from modescope.bench.model.module_state import keep_state
from modescope.bench.model.subject import Inputs, Subject, redraw

Copying = Callable[[Inputs], Inputs]

COPIES: dict[str, Copying] = {
    "copied": Inputs.copy,
    "redrawn": lambda inputs: redraw(inputs, 1),
    "cast": lambda inputs: Subject(nn.Identity(), inputs).cast(torch.float64).inputs,
    "moved": lambda inputs: Subject(nn.Identity(), inputs).to(torch.device("meta")).inputs,
}

TENSORS = {
    "expanded": torch.randn(1, 5).expand(4, 5),
    "sliced": torch.randn(8, 128)[:, 32:64],
    "from an offset": torch.arange(40)[3:],
    "overlapping windows": torch.randn(100).unfold(0, 16, 4),
    "channels last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "complex": torch.randn(4, 6, dtype=torch.complex64)[:, ::2],
    "empty": torch.randn(6, 4)[3:3],
}


def layout(tensor: Tensor) -> tuple[object, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_copies_lie_as_the_example_and_parts_of_one_storage_stay_parts_of_one(
    copy: Copying,
) -> None:
    both = torch.randn(8, 6)
    examples = (*TENSORS.values(), both[:, :2], [both[:, 2:]])
    given = Inputs(examples, {})
    made = copy(given).tensors()
    for new, old in zip(made, given.tensors(), strict=True):
        assert layout(new) == layout(old)
        assert not new._is_view()
        if new.device.type == "cpu" and old.numel():
            assert new.untyped_storage().data_ptr() != old.untyped_storage().data_ptr()
    assert made[-2].untyped_storage()._cdata == made[-1].untyped_storage()._cdata


def test_inputs_that_lie_alike_are_assigned_and_put_back() -> None:
    inputs = Inputs(tuple(TENSORS.values()), {}).copy()
    before, fresh = inputs.copy(), redraw(inputs, 2)
    for values in (fresh, before):
        inputs.assign(values)
        assert all(map(torch.equal, inputs.args, values.args))
    assert all(map(torch.equal, inputs.args, TENSORS.values()))


def test_fresh_expanded_inputs_differ_from_the_example() -> None:
    fresh = redraw(Inputs((TENSORS["expanded"], torch.arange(5).expand(4, 5)), {}), 1)
    assert (fresh.args[0] != TENSORS["expanded"]).any()
    assert fresh.args[1][3].sort().values.tolist() == [0, 1, 2, 3, 4]


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
    inputs.assign(redraw(inputs, 1))
    changed = inputs.args[0].to_dense() != example.to_dense()
    assert torch.equal(changed, example.to_dense() != 0)
    assert Subject(nn.Identity(), inputs).cast(torch.float64).inputs.args[0].dtype == torch.float64


def test_expanded_tensors_are_compared_without_a_copy_of_all_they_show() -> None:
    large = torch.zeros(1).expand(2**20, 2**20)
    assert geometry.same_bits(large, torch.zeros(1).expand(2**20, 2**20))
    assert not geometry.same_bits(large, torch.ones(1).expand(2**20, 2**20))
    assert geometry.same_bits(torch.tensor(float("nan")), torch.tensor(float("nan")))
    assert not geometry.same_bits(torch.eye(2), torch.zeros(2, 2))
    assert geometry.same_bits(torch.eye(3), torch.eye(3).t())


def test_a_buffer_that_is_expanded_is_put_back() -> None:
    module = nn.Module()
    module.register_buffer("mask", torch.ones(1, 3).expand(2, 3))
    mask = module.get_buffer("mask")
    with keep_state(module):
        mask[0] = 5  # of both rows
    assert mask.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert mask.stride() == (0, 1)
