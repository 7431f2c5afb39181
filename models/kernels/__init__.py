"""Five operators written by hand, forward and backward: plain torch, C++ and Triton.

Each implementation gives an `Operators`. They compute the same: sums in fp32, or in fp64 for fp64;
a C++ or Triton operator rounds to the dtype of its inputs only what it returns. All arguments of a
call have one dtype, fp64, fp32, bf16 or fp16. Results are contiguous; arguments may be strided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Operators:
    """An implementation of the five operators."""

    rmsnorm: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]
    """x (..., width), residual of the same shape, weight (width,), eps -> y and h of x's shape.

    h = x + residual; y = h / sqrt(mean(h²) + eps) * weight.
    """

    swiglu: Callable[[Tensor, Tensor], Tensor]
    """gate and up of one shape -> gate * sigmoid(gate) * up, of that shape."""

    rope: Callable[[Tensor, Tensor, Tensor], Tensor]
    """x (batch, seq, heads, head width), cos and sin (seq, head width / 2) -> x's shape.

    Element i of a head and element i + head width / 2 are rotated as a pair.
    """

    layernorm_gelu: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    """x (..., width), weight and bias (width,), eps -> gelu(layer_norm(x)), of x's shape."""

    cross_entropy: Callable[[Tensor, Tensor], Tensor]
    """logits (rows, classes), target (rows,) int64, each a class -> loss of each row, (rows,)."""
