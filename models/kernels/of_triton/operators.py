"""Registers the launchers with torch as operators."""

from __future__ import annotations

from functools import cache

from torch.library import triton_op

from modescope.models.kernels import Operators, registered
from modescope.models.kernels.of_triton import loss, norms, pointwise

NAMESPACE = "modescope_triton"

LAUNCHERS = (
    *(norms.rmsnorm, norms.rmsnorm_backward),
    *(norms.layernorm_gelu, norms.layernorm_gelu_backward),
    *(pointwise.swiglu, pointwise.swiglu_backward, pointwise.rope),
    *(loss.cross_entropy, loss.cross_entropy_backward),
)


@cache
def load() -> Operators:
    """Registers the operators and returns them."""
    for launcher in LAUNCHERS:
        triton_op(f"{NAMESPACE}::{launcher.__name__}", launcher, mutates_args=())
    registered.add_backward(NAMESPACE)
    return registered.operators(NAMESPACE)
