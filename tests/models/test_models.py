from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from modescope.models import mlp, pointwise, transformer

Build = Callable[[], tuple[nn.Module, tuple[Tensor]]]

BUILDS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "mlp": (lambda: mlp.build(batch=4, width=32, depth=3), (4, 32)),
    "transformer": (lambda: transformer.build(batch=2, seq=8, width=32, heads=4), (2, 8, 32)),
    "pointwise": (lambda: pointwise.build(batch=4, width=32, ops=10), (4, 32)),
}
every_model = pytest.mark.parametrize(("build", "shape"), BUILDS.values(), ids=BUILDS)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def relative_rms(found: Tensor, reference: Tensor) -> float:
    wrong = found.double() - reference
    return (wrong.square().mean() / reference.square().mean()).sqrt().item()


class DispatchedOps(TorchDispatchMode):
    """Names of the ops that reach the dispatcher, in order."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@every_model
def test_output_has_the_shape_of_the_input(build: Build, shape: tuple[int, ...]) -> None:
    module, (x,) = build()
    assert x.shape == module(x).shape == shape
    assert module.training
    assert {t.dtype for t in (x, *module.parameters())} == {torch.float32}


@every_model
def test_the_same_seed_builds_the_same_model(build: Build, shape: tuple[int, ...]) -> None:
    torch.manual_seed(7)
    first, first_inputs = build()
    torch.manual_seed(7)
    second, second_inputs = build()
    torch.testing.assert_close(first(*first_inputs), second(*second_inputs), rtol=0, atol=0)


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_empty_batch_is_accepted(
    build: Build, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    module, (x,) = build()
    output = module.to(dtype)(x[:0].to(dtype))
    assert output.shape == (0, *shape[1:])
    assert output.dtype == dtype


@every_model
def test_error_in_bf16_is_within_a_few_roundings(build: Build, shape: tuple[int, ...]) -> None:
    module, (x,) = build()
    reference = deepcopy(module).double()(x.double())
    assert 0 < relative_rms(module(x), reference) < 1e-6
    assert 1e-4 < relative_rms(module.bfloat16()(x.bfloat16()), reference) < 1e-2


@every_model
def test_every_parameter_gets_a_gradient(build: Build, shape: tuple[int, ...]) -> None:
    module, inputs = build()
    module(*inputs).square().mean().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.count_nonzero() > 0, name


def test_mlp_has_an_activation_between_layers_only() -> None:
    module, _ = mlp.build(batch=2, width=8, depth=3)
    kinds = [type(layer).__name__ for layer in module.modules() if not list(layer.children())]
    assert kinds == ["Linear", "GELU", "Linear", "GELU", "Linear"]
    assert len(list(module.children())) == 3, "a layer and its GELU are recomputed together"


def test_transformer_is_causal() -> None:
    module, (x,) = transformer.build(batch=2, seq=8, width=32, heads=4)
    changed = x.clone()
    changed[:, 5] = torch.randn(2, 32)
    before, after = module(x), module(changed)
    torch.testing.assert_close(after[:, :5], before[:, :5], rtol=0, atol=0)
    assert ((after[:, 5:] - before[:, 5:]).abs().amax(-1) > 1e-4).all()


def test_transformer_agrees_with_attention_written_out() -> None:
    module, (x,) = transformer.build(batch=1, seq=4, width=8, heads=2)
    assert isinstance(module, transformer.Block)
    query, key, value = module.query_key_value(x).split(8, dim=-1)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        scores = query[..., part] @ key[..., part].mT / 4**0.5
        weights = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf).softmax(-1)
        heads.append(weights @ value[..., part])
    torch.testing.assert_close(module.attend(x), module.attention_out(torch.cat(heads, dim=-1)))


def test_transformer_names_the_sizes_that_fit() -> None:
    with pytest.raises(ValueError, match=r"width=30 .* heads=4: choose a width .* multiple of 4"):
        transformer.build(batch=1, seq=4, width=30, heads=4)


@pytest.mark.parametrize("ops", [1, 2, 3, 4, 32, 1000])
@pytest.mark.parametrize("grad", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_pointwise_dispatches_exactly_its_ops(ops: int, grad: Callable[[], Any]) -> None:
    module, (x,) = pointwise.build(batch=2, width=4, ops=ops)
    with grad(), DispatchedOps() as dispatched:
        module(x)
    assert len(dispatched.names) == ops
    assert dispatched.names[:4] == ["mul", "sin", "mul", "add"][:ops]


@pytest.mark.parametrize("ops", [1, 4, 100, 999, 1000])
def test_pointwise_error_does_not_grow_with_length(ops: int) -> None:
    module, (x,) = pointwise.build(batch=64, width=64, ops=ops)
    reference = deepcopy(module).double()(x.double())
    assert 1e-3 < relative_rms(module.bfloat16()(x.bfloat16()), reference) < 5e-3
    assert reference.abs().max() < (x * module.get_parameter("scale")).abs().max() + 0.75


@pytest.mark.parametrize("ops", [1, 4, 999, 1000])
def test_pointwise_output_depends_on_its_input_and_on_each_op(ops: int) -> None:
    module, (x,) = pointwise.build(batch=64, width=64, ops=ops)
    assert isinstance(module, pointwise.Chain)
    output = module(x).double()
    assert relative_rms(module(torch.randn_like(x)), output) > 1
    module.ops += 3
    assert relative_rms(module(x), output) > 1e-2
