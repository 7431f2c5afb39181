"""One operator in a module, with each implementation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.bench.settings import OPERATORS
from modescope.models import fused
from tests.helpers import kernels

SIZES = {"batch": 2, "seq": 3, "width": 128}

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "rmsnorm": [(3, 128), (3, 128)],
    "swiglu": [(3, 128)],
    "rope": [(3, 128)],
    "layernorm_gelu": [(3, 128)],
    "cross_entropy": [(3,)],
}
"""Of the outputs, without the batch."""

every_operator = pytest.mark.parametrize("name", SHAPES)


def outputs(module: Callable[..., Any], inputs: tuple[Tensor, ...]) -> list[Tensor]:
    found = module(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.fixture(scope="module")
def cpp() -> None:
    """Compiles the operators, or skips the test where nothing can."""
    kernels.operators_of("cpp")


@pytest.fixture(params=["torch", "cpp"])
def kind(request: pytest.FixtureRequest) -> Any:
    if request.param == "cpp":
        request.getfixturevalue("cpp")
    return request.param


def build(name: str, kind: str) -> fused.Built:
    torch.manual_seed(0)
    return fused.build(name, **SIZES, kernels=kind)


def test_the_setting_offers_what_is_built() -> None:
    assert [*OPERATORS] == [*fused.MODULES] == [*SHAPES]


@every_operator
def test_implementations_share_weights_and_agree(name: str, cpp: None) -> None:
    built = [build(name, "torch"), build(name, "cpp")]
    first, second = (module.state_dict() for module, _ in built)
    assert [*first] == [*second]
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    for expected, found in zip(*(outputs(*pair) for pair in built), strict=True):
        assert not torch.equal(expected, torch.zeros_like(expected))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@every_operator
def test_the_named_builders_build_the_same(name: str, cpp: None) -> None:
    torch.manual_seed(0)
    module, inputs = fused.build_cpp(name, **SIZES)
    other, _ = build(name, "cpp")
    assert isinstance(module, fused.Scaled)
    assert isinstance(other, fused.Scaled)
    assert module.operators is other.operators
    assert [*module.state_dict()] == [*other.state_dict()]
    assert [part.shape for part in outputs(module, inputs)] == [(2, *s) for s in SHAPES[name]]


@every_operator
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_empty_batch_is_accepted(name: str, dtype: torch.dtype, kind: str) -> None:
    module, inputs = build(name, kind)
    empty = [part[:0].to(dtype) if part.is_floating_point() else part[:0] for part in inputs]
    found = outputs(module.to(dtype), tuple(empty))
    assert [part.shape for part in found] == [(0, *shape) for shape in SHAPES[name]]
    assert {part.dtype for part in found} == {dtype}


@every_operator
def test_every_parameter_gets_a_gradient(name: str, kind: str) -> None:
    module, inputs = build(name, kind)
    outputs(module, inputs)[0].square().mean().backward()
    for parameter, value in module.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.count_nonzero() > 0, parameter


@every_operator
def test_a_copy_is_captured_without_a_graph_break(name: str, kind: str) -> None:
    module, inputs = build(name, kind)
    compiled = torch.compile(deepcopy(module), backend="aot_eager", fullgraph=True)
    for found, expected in zip(outputs(compiled, inputs), outputs(module, inputs), strict=True):
        torch.testing.assert_close(found, expected)


def test_rope_keeps_lengths_and_turns_by_the_place() -> None:
    module, (x,) = build("rope", "torch")
    assert isinstance(module, fused.Rope)
    before, after = ((part.unflatten(-1, (-1, 2, 32))) for part in (x * module.scale, module(x)))
    torch.testing.assert_close(before.norm(dim=-2), after.norm(dim=-2))
    torch.testing.assert_close(before[:, 0], after[:, 0])
    turned = (before * after).sum(-2) / before.norm(dim=-2).square()
    torch.testing.assert_close(turned[:, 2, :, 0], torch.full((2, 2), 2.0).cos())


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"name": "conv"}, "conv"), ({"kernels": "cuda"}, "cuda"), ({"width": 96}, "width=96")],
)
def test_what_is_not_built_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fused.build(**{"name": "rope", **SIZES, **changed})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_triton_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"^kernels=triton .*GPU"):
        fused.build_triton("swiglu", **SIZES)


def test_a_missing_triton_is_named() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from modescope.models import fused\n"
        "try: fused.build_triton('swiglu', batch=1, seq=1, width=8)\n"
        "except ValueError as error: sys.exit('needs the package triton' not in str(error))\n"
        "sys.exit('it was built')"
    )
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_tensors_on_a_gpu_are_refused_by_cpp(cpp: None) -> None:
    gpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    x = torch.ones(2, 8)
    with pytest.raises(ValueError, match=r"swiglu .*CPU"):
        torch.ops.modescope_kernels.swiglu.default.redispatch(gpu, x, x)
