"""Operators in C++, and in Triton's interpreter, against the plain ones in fp64."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.models.kernels import Operators, cpp, plain
from tests.helpers import kernels
from tests.helpers.kernels import INTERPRETED, OPERATORS
from tests.helpers.paths import ROOT

SIZES = [(3, 7), (5, 130), (1, 1), *([] if INTERPRETED else [(33, 64), (70, 1025), (17, 4096)])]

every_operator = pytest.mark.parametrize("name", OPERATORS)


@pytest.fixture(params=["triton"] if INTERPRETED else ["cpp"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def operators(kind: str, monkeypatch: pytest.MonkeyPatch) -> Operators:
    torch.manual_seed(0)
    if kind == "triton":  # small rows in several programs, several rows in a program
        from modescope.models.kernels.of_triton import launch

        monkeypatch.setattr(launch, "MOST_PROGRAMS", 3)
        monkeypatch.setattr(launch, "POINTWISE", 64)
    return kernels.operators_of(kind)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@every_operator
@pytest.mark.parametrize(
    ("dtype", "part"),
    [
        *((dtype, kernels.WHOLE) for dtype in kernels.TOLERANCES),
        *((torch.float32, part) for part in (kernels.LEFT_HALF, kernels.EVERY_SECOND)),
        *((torch.bfloat16, part) for part in (kernels.LEFT_HALF, kernels.EVERY_SECOND)),
    ],
)
def test_results_and_gradients_agree_with_plain_torch_in_fp64(
    name: str, dtype: torch.dtype, part: slice, operators: Operators
) -> None:
    tolerance = 2e-2 if INTERPRETED and dtype == torch.bfloat16 else None
    for rows, width in SIZES:
        if name in ("layernorm_gelu", "cross_entropy") and width == 1:  # gradients of 0
            continue
        given = kernels.arguments(name, rows, width, dtype, part=part)
        assert given[0].is_contiguous() == (part == kernels.WHOLE) or rows == 1
        kernels.assert_right(operators, name, given, tolerance)


@every_operator
def test_an_empty_batch_gives_empty_results_and_weight_gradients_of_zero(
    name: str, operators: Operators
) -> None:
    given = kernels.arguments(name, 0, 16)
    found = kernels.results(getattr(operators, name), given)
    expected = kernels.results(getattr(plain.OPERATORS, name), given)
    for part, right in zip(found, expected, strict=True):
        assert torch.equal(part, right)


@every_operator
def test_gradients_may_be_strided_or_missing(name: str, operators: Operators) -> None:
    given = kernels.arguments(name, 4, 24)
    gradients = []
    for source in (operators, plain.OPERATORS):
        output = getattr(source, name)(*given)
        first = output[0] if isinstance(output, tuple) else output
        leaves = [value for value in given if isinstance(value, Tensor) and value.requires_grad]
        gradients.append(torch.autograd.grad(first.sum(), leaves))  # expanded from one number
    torch.testing.assert_close(*gradients)


@every_operator
def test_bits_repeat_for_any_number_of_threads(
    name: str, operators: Operators, kind: str, threads: None
) -> None:
    given = kernels.arguments(name, 8 if INTERPRETED else 1000, 130)
    runs = []
    for count in (1, 2, 2):
        torch.set_num_threads(count)
        runs.append(kernels.results(getattr(operators, name), given))
    for first, second, third in zip(*runs, strict=True):
        assert torch.equal(first, second)
        assert torch.equal(second, third)


@pytest.mark.parametrize("classes", [32_000, 128_256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_whole_vocabulary(classes: int, dtype: torch.dtype, operators: Operators) -> None:
    given = kernels.arguments("cross_entropy", 3, classes, dtype)
    kernels.assert_right(operators, "cross_entropy", given)


def test_classes_that_are_ruled_out_take_no_part(operators: Operators) -> None:
    logits, target = torch.randn(3, 5000), torch.tensor([4999, 4998, 0])
    logits[:2, :4500] = -torch.inf
    logits[2, 1:] = -torch.inf
    given = [logits.requires_grad_(), target]
    found = kernels.results(operators.cross_entropy, given)
    torch.testing.assert_close(found, kernels.results(plain.OPERATORS.cross_entropy, given))


def test_large_logits_do_not_overflow(operators: Operators) -> None:
    given = [torch.tensor([[1000.0, 999.0, -1000.0]]).requires_grad_(), torch.tensor([1])]
    kernels.assert_right(operators, "cross_entropy", given, 1e-4)  # 1000 in fp32 ends at 6e-5


@pytest.mark.parametrize("wrong", [-100, 7])
def test_a_target_that_is_no_class_is_not_read(wrong: int, operators: Operators, kind: str) -> None:
    given = torch.randn(2, 7), torch.tensor([0, wrong])
    if kind == "cpp":
        with pytest.raises(IndexError, match=str(wrong)):
            operators.cross_entropy(*given)
    else:
        assert operators.cross_entropy(*given).isnan().tolist() == [False, True]


def _calls(name: str, namespace: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """An operator and its backward, with arguments."""
    ops = getattr(torch.ops, namespace)
    given = kernels.arguments(name, 6, 24)
    plainly = [value.detach() if isinstance(value, Tensor) else value for value in given]
    if name == "rope":
        return [(ops.rope.default, (*given, -1.0))]
    made = getattr(ops, name)(*plainly)
    backward = getattr(ops, f"{name}_backward").default
    grad = torch.randn_like(made[0] if isinstance(made, tuple) else made)
    saved: dict[str, Any] = {
        "rmsnorm": lambda: (grad, grad, made[1], plainly[2], made[2]),
        "swiglu": lambda: (grad, *plainly),
        "layernorm_gelu": lambda: (grad, *plainly[:3], *made[1:]),
        "cross_entropy": lambda: (grad, *plainly, made[1]),
    }
    return [(getattr(ops, name).default, tuple(given)), (backward, saved[name]())]


@every_operator
def test_torch_finds_the_registration_right(name: str, operators: Operators, kind: str) -> None:
    """The interpreter reads memory, so that it cannot be traced."""
    namespace = cpp.NAMESPACE if kind == "cpp" else "modescope_triton"
    traced = ("test_faketensor", "test_aot_dispatch_dynamic") if kind == "cpp" else ()
    tests = ("test_schema", "test_autograd_registration", *traced)
    for op, given in _calls(name, namespace):
        assert {*torch.library.opcheck(op, given, test_utils=tests).values()} == {"SUCCESS"}


@pytest.mark.skipif(INTERPRETED, reason="starts the interpreter itself")
def test_triton_is_right_in_its_interpreter() -> None:
    """It has to be chosen before Triton is imported: this file in a process of its own."""
    pytest.importorskip("triton")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(__file__)]
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
