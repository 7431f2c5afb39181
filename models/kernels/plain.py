"""The five operators in plain torch: what the others must agree with, and compile fuses itself."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from modescope.models.kernels import Operators


def rmsnorm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """See `Operators.rmsnorm`. bf16 is normed in fp32, and rounded before the weight."""
    h = x + residual
    wide = h if h.dtype == torch.float64 else h.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return y.to(h.dtype) * weight, h


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """See `Operators.swiglu`."""
    return functional.silu(gate) * up


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """See `Operators.rope`."""
    (left, right), cos, sin = x.chunk(2, -1), cos[:, None], sin[:, None]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)


def layernorm_gelu(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """See `Operators.layernorm_gelu`."""
    return functional.gelu(functional.layer_norm(x, weight.shape, weight, bias, eps))


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """See `Operators.cross_entropy`."""
    return functional.cross_entropy(logits, target, reduction="none")


OPERATORS = Operators(rmsnorm, swiglu, rope, layernorm_gelu, cross_entropy)
