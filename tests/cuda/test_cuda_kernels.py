"""Operators in Triton, run on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from modescope.models import fused
from modescope.models.kernels import Operators, plain
from tests.helpers import kernels
from tests.helpers.kernels import EVERY_SECOND, LEFT_HALF, OPERATORS, WHOLE

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("fresh_compiler")]

every_operator = pytest.mark.parametrize("name", OPERATORS)


@pytest.fixture
def operators() -> Operators:
    torch.manual_seed(0)
    return kernels.operators_of("triton")


@every_operator
@pytest.mark.parametrize("dtype", kernels.TOLERANCES)
def test_results_and_gradients_agree_with_plain_torch_in_fp64(
    name: str, dtype: torch.dtype, operators: Operators
) -> None:
    for rows, width, part in [(3, 7, EVERY_SECOND), (300, 130, LEFT_HALF), (2, 65_536, WHOLE)]:
        given = kernels.arguments(name, rows, width, dtype, "cuda", part)
        kernels.assert_right(operators, name, given)


@every_operator
def test_an_empty_batch_gives_empty_results(name: str, operators: Operators) -> None:
    given = kernels.arguments(name, 0, 16, device="cuda")
    found = kernels.results(getattr(operators, name), given)
    expected = kernels.results(getattr(plain.OPERATORS, name), given)
    assert all(map(torch.equal, found, expected))


@every_operator
def test_bits_repeat(name: str, operators: Operators) -> None:
    given = kernels.arguments(name, 1000, 130, device="cuda")
    runs = [kernels.results(getattr(operators, name), given) for _ in range(2)]
    assert all(map(torch.equal, *runs))


def test_a_whole_vocabulary(operators: Operators) -> None:
    given = kernels.arguments("cross_entropy", 64, 128_256, torch.bfloat16, "cuda")
    kernels.assert_right(operators, "cross_entropy", given)


def test_a_row_beyond_all_blocks_is_refused(operators: Operators) -> None:
    with pytest.raises(ValueError, match="65537"):
        operators.rmsnorm(*kernels.arguments("rmsnorm", 1, 65_537, device="cuda"))


def test_a_tensor_on_the_cpu_is_refused(operators: Operators) -> None:
    with pytest.raises(ValueError, match=r"^kernels=triton .*cpu"):
        operators.swiglu(*kernels.arguments("swiglu", 4, 24))


def test_places_beyond_2_31_elements(operators: Operators) -> None:
    rows, width = 2**20 + 1, 2048
    if torch.cuda.mem_get_info()[0] < 20e9:
        pytest.skip("needs 20 GB of GPU memory")
    gate, up = (torch.zeros(rows, width, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    gate[-1], up[-1] = 1, 2
    y = operators.swiglu(gate, up)
    assert y[-2].count_nonzero() == 0
    torch.testing.assert_close(y[-1:], plain.swiglu(gate[-1:], up[-1:]))


def test_torch_finds_the_registration_right(operators: Operators) -> None:
    ops = torch.ops.modescope_triton
    for name in OPERATORS:
        given = kernels.arguments(name, 6, 24, device="cuda")
        sign = (1.0,) if name == "rope" else ()
        checks = torch.library.opcheck(getattr(ops, name).default, (*given, *sign))
        assert {*checks.values()} == {"SUCCESS"}, name


def _built(name: str) -> tuple[torch.nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    module, inputs = fused.build_triton(name, batch=2, seq=64, width=256)
    return module.cuda(), tuple(part.cuda() for part in inputs)


def _tensors(output: Any) -> list[Tensor]:
    return list(output) if isinstance(output, tuple) else [output]


@every_operator
def test_compiled_code_calls_the_kernel_by_its_name(name: str) -> None:
    module, inputs = _built(name)
    compiled = torch.compile(module, fullgraph=True)
    expected = _tensors(module(*inputs))
    expected[0].sum().backward()
    gradients = [value.grad.clone() for value in module.parameters()]
    module.zero_grad()
    found = _tensors(compiled(*inputs))
    found[0].sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close([value.grad for value in module.parameters()], gradients)
    with torch.no_grad():
        compiled(*inputs)
        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            compiled(*inputs)
            torch.cuda.synchronize()
    assert any(event.name == f"modescope_{name}" for event in trace.events())


@every_operator
@torch.no_grad()
def test_a_captured_graph_repeats_eager(name: str) -> None:
    module, inputs = _built(name)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        module(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = _tensors(module(*inputs))
    inputs[0].copy_(torch.randn_like(inputs[0]))
    graph.replay()
    for found, expected in zip(captured, _tensors(module(*inputs)), strict=True):
        assert torch.equal(found, expected)


@every_operator
def test_tensors_of_another_card_are_computed_there(name: str, operators: Operators) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    assert torch.cuda.current_device() == 0
    given = kernels.arguments(name, 40, 130, device="cuda:1")
    kernels.assert_right(operators, name, given)
    assert torch.cuda.current_device() == 0
