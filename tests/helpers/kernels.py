"""Arguments of the operators of models/kernels, and their results and gradients."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.models.kernels import Operators, cpp, plain

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
OPERATORS = [field.name for field in fields(Operators)]
EPS = 1e-5

WHOLE, LEFT_HALF, EVERY_SECOND = slice(None), slice(None, None, 1), slice(None, None, 2)

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""Largest relative error; Triton's interpreter cuts bf16 off instead of rounding."""


def operators_of(kernels: str) -> Operators:
    """The operators of cpp or triton; skips the test where they cannot run."""
    if kernels == "triton":
        pytest.importorskip("triton")
        from modescope.models.kernels.of_triton import operators

        return operators.load()
    if shutil.which((os.environ.get("CXX") or "g++").split()[0]) is None:
        pytest.skip("needs a C++ compiler")
    return cpp.load()


def arguments(
    name: str,
    rows: int,
    width: int,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    part: slice = WHOLE,
) -> list[Any]:
    """Arguments of an operator, drawn at random.

    With another `part` than WHOLE, rows are a part of longer ones.
    """

    def draw(*size: int) -> Tensor:
        *outer, last = size
        whole = torch.randn(*outer, last if part == WHOLE else 2 * last, dtype=torch.float64)
        return whole.to(device, dtype)[..., part][..., :last].requires_grad_()

    def target() -> Tensor:
        return torch.randint(width, (2 * rows,))[::2].to(device)

    seq, half = max(rows, 1), max(width // 4, 1)
    angles = torch.rand(seq, half, dtype=torch.float64) * 6
    made: dict[str, Callable[[], list[Any]]] = {
        "rmsnorm": lambda: [draw(rows, width), draw(rows, width), draw(width), EPS],
        "swiglu": lambda: [draw(rows, width), draw(rows, width)],
        "rope": lambda: [
            draw(2 if rows else 0, seq, 17, 2 * half),
            *(table.to(device, dtype) for table in (angles.cos(), angles.sin())),
        ],
        "layernorm_gelu": lambda: [draw(rows, width), draw(width), draw(width), EPS],
        "cross_entropy": lambda: [draw(rows, width), target()],
    }
    return made[name]()


def results(
    function: Callable[..., Any], given: list[Any], dtype: torch.dtype | None = None
) -> list[Tensor]:
    """What the function returns, then gradients of its arguments; computed in `dtype`."""

    def converted(value: Any) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point():
            return value.detach().to(dtype or value.dtype).requires_grad_(value.requires_grad)
        return value

    inputs = [converted(value) for value in given]
    output = function(*inputs)
    outputs = output if isinstance(output, tuple) else (output,)
    draws = torch.Generator().manual_seed(1)
    weights = [
        torch.randn(part.shape, dtype=torch.float64, generator=draws).to(part) for part in outputs
    ]
    torch.autograd.backward(outputs, weights)
    leaves = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
    return [*(part.detach() for part in outputs), *(leaf.grad for leaf in leaves)]


def error(found: Tensor, expected: Tensor) -> float:
    """Root mean square of the difference over that of `expected`."""
    assert found.shape == expected.shape
    difference = (found.double() - expected).square().mean().sqrt()
    return (difference / expected.square().mean().sqrt()).item() if found.numel() else 0.0


def assert_right(
    operators: Operators, name: str, given: list[Any], tolerance: float | None = None
) -> None:
    """Results and gradients agree with those of the plain operator in fp64."""
    twin = getattr(plain.OPERATORS, name)
    found, expected = results(getattr(operators, name), given), results(twin, given, torch.float64)
    limit = tolerance or TOLERANCES[given[0].dtype]
    assert len(found) == len(expected)
    for place, (part, right) in enumerate(zip(found, expected, strict=True)):
        assert part.dtype == given[0].dtype
        assert part.isfinite().all()
        assert error(part, right) <= limit, place
