"""What operators registered with torch share, from C++ or Triton: backward, and how to call them.

A namespace of torch.ops has each operator and its backward as operators, whose arguments and
results `cpp.FAKES` lists. An operator also returns what its backward needs, such as the inverse
norm of each row in fp32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from modescope.models.kernels import Operators


def stats_dtype(x: Tensor) -> torch.dtype:
    """Returns the dtype of sums over elements of `x`."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def add_backward(namespace: str) -> None:
    """Registers the backward of each operator in `namespace`."""
    ops = getattr(torch.ops, namespace)

    def rmsnorm(ctx: Any, grad_y: Tensor, grad_h: Tensor, _: Tensor) -> tuple[Any, ...]:
        grad_x, grad_weight = ops.rmsnorm_backward(grad_y, grad_h, *ctx.saved_tensors)
        return grad_x, grad_x, grad_weight, None

    def swiglu(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        grads: tuple[Any, ...] = ops.swiglu_backward(grad, *ctx.saved_tensors)
        return grads

    def save_rope(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cos, sin, ctx.sign = inputs
        ctx.save_for_backward(cos, sin)

    def rope(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return ops.rope(grad, *ctx.saved_tensors, -ctx.sign), None, None, None

    def layernorm_gelu(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Any, ...]:
        return *ops.layernorm_gelu_backward(grad, *ctx.saved_tensors), None

    def cross_entropy(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        return ops.cross_entropy_backward(grad, *ctx.saved_tensors), None

    for backward, save in (
        (rmsnorm, _saver(5, 2, 6)),  # h, weight, rstd
        (swiglu, _saver(0, 1)),
        (rope, save_rope),
        (layernorm_gelu, _saver(0, 1, 2, 5, 6)),  # x, weight, bias, mean, rstd
        (cross_entropy, _saver(0, 1, 3)),  # logits, target, lse
    ):
        name = f"{namespace}::{backward.__name__}"
        torch.library.register_autograd(name, backward, setup_context=save)


def _saver(*places: int) -> Callable[[Any, tuple[Any, ...], Any], None]:
    """Returns a function that saves these of an operator's arguments and results, in one count."""

    def save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        known = (*inputs, *(output if isinstance(output, tuple) else (output,)))
        ctx.save_for_backward(*(known[place] for place in places))

    return save


def operators(namespace: str) -> Operators:
    """Returns the operators of `namespace`, without the results that only backward needs."""
    ops = getattr(torch.ops, namespace)

    def rmsnorm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        y, h, _ = ops.rmsnorm(x, residual, weight, eps)
        return y, h

    def swiglu(gate: Tensor, up: Tensor) -> Tensor:
        y: Tensor = ops.swiglu(gate, up)
        return y

    def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y: Tensor = ops.rope(x, cos, sin, 1.0)
        return y

    def layernorm_gelu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        y: Tensor = ops.layernorm_gelu(x, weight, bias, eps)[0]
        return y

    def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
        loss: Tensor = ops.cross_entropy(logits, target)[0]
        return loss

    return Operators(rmsnorm, swiglu, rope, layernorm_gelu, cross_entropy)
