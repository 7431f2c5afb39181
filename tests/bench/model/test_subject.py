"""Copies that share nothing, buffers restored, inputs drawn anew."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from modescope.bench.model.module_state import keep_state
from modescope.bench.model.subject import Inputs, Subject, redraw
from tests.helpers.probe_models import counts

SEEDED = torch.Generator().manual_seed(0)


class Everything(nn.Module):
    """Every kind of tensor that a cast treats differently."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))
        self.tied = self.weight
        self.register_buffer("mean", torch.randn(3))
        self.register_buffer("count", torch.tensor(2**24 + 1))
        self.register_buffer("rotation", torch.randn(3, dtype=torch.complex64))
        self.register_buffer("missing", None)


def storages(of: Subject) -> set[int]:
    tensors = [*of.module.parameters(), *of.module.buffers(), *of.inputs.tensors()]
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_a_copy_shares_no_storage_and_has_other_floating_tensors_only() -> None:
    args = (torch.randn(4, 3), torch.arange(5), torch.tensor([True, False]))
    everything = Subject(Everything().eval(), Inputs(args, {"scale": torch.tensor(2.0)}))
    own = everything.cast(torch.bfloat16)
    assert len(storages(own)) == len(storages(everything)) == 8
    assert not storages(own) & storages(everything)
    assert own.module.tied is own.module.weight
    tensors = {**dict(own.module.named_parameters()), **dict(own.module.named_buffers())}
    assert {name: tensor.dtype for name, tensor in tensors.items()} == {
        "weight": torch.bfloat16,
        "mean": torch.bfloat16,
        "count": torch.int64,
        "rotation": torch.complex64,  # Module.to(dtype) would drop the imaginary part
    }
    assert torch.equal(tensors["rotation"], everything.module.get_buffer("rotation"))
    assert tensors["count"] == 2**24 + 1
    dtypes = [tensor.dtype for tensor in own.inputs.tensors()]
    assert dtypes == [torch.bfloat16, torch.int64, torch.bool, torch.bfloat16]
    assert everything.module.get_parameter("weight").dtype == torch.float32


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
@pytest.mark.parametrize("grad", [torch.enable_grad, torch.inference_mode])
def test_state_is_restored_after_a_block(in_place: bool, grad: Any) -> None:
    module, (x,) = counts(in_place)
    with grad():  # where a buffer that it replaced can be written, and nowhere else
        module(x)
    before = module.get_buffer("calls")
    with keep_state(module):
        for _ in range(2):
            with grad():
                module(x)
        assert module.get_buffer("calls") == 4
    assert module.get_buffer("calls") is before
    assert before == 2


def test_state_is_restored_after_a_new_buffer_or_a_failed_call() -> None:
    module = Everything()

    def call() -> None:
        module.missing = torch.ones(1)
        module.get_buffer("mean").zero_()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), keep_state(module):
        call()
    assert module.missing is None
    assert module.get_buffer("mean").any()


def drawn(example: Tensor, seed: int = 1) -> Tensor:
    return redraw(Inputs((example,), {}), seed).tensors()[0]


@pytest.mark.parametrize(
    "example",
    [
        torch.randn(64, generator=SEEDED).bfloat16(),
        torch.rand(8, 8, dtype=torch.float64, generator=SEEDED) + 3,
    ],
)
def test_fresh_floats_look_like_the_example(example: Tensor) -> None:
    state = torch.get_rng_state()
    fresh = drawn(example)
    assert (fresh.dtype, fresh.shape) == (example.dtype, example.shape)
    assert (fresh != example).double().mean() > 0.9
    assert fresh.min() >= example.min()
    assert fresh.max() <= example.max()
    spread = example.double().std()
    assert (fresh.double().mean() - example.double().mean()).abs() < 0.5 * spread
    assert 0.5 * spread < fresh.double().std() < 1.5 * spread
    assert torch.equal(fresh, drawn(example))
    assert not torch.equal(fresh, drawn(example, seed=2))
    assert torch.equal(torch.get_rng_state(), state), "the global generator is not advanced"


@pytest.mark.parametrize("example", [torch.arange(50).view(5, 10), torch.arange(50) < 20])
def test_integers_are_permuted(example: Tensor) -> None:
    fresh = drawn(example)
    assert (fresh.dtype, fresh.shape) == (example.dtype, example.shape)
    assert not torch.equal(fresh, example)
    assert torch.equal(fresh.flatten().sort().values, example.flatten().sort().values)


@pytest.mark.parametrize("value", [0.0, -2.0, 1e6])
@pytest.mark.parametrize("shape", [(), (33, 7)])
def test_fresh_constants_change_and_keep_their_sign(value: float, shape: tuple[int, ...]) -> None:
    example = torch.full(shape, value)
    fresh = drawn(example)
    assert (fresh != example).all()
    assert fresh.isfinite().all()
    if value:
        assert (fresh.sign() == math.copysign(1, value)).all()


def test_infinities_of_a_mask_are_kept() -> None:
    mask = torch.full((6, 6), -math.inf).triu(1)
    fresh = drawn(mask)
    assert torch.equal(fresh.isinf(), mask.isinf())
    assert fresh[~mask.isinf()].all()
    assert torch.equal(drawn(torch.full((3,), -math.inf)), torch.full((3,), -math.inf))
