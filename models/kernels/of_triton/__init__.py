"""The five operators in Triton for a GPU: torch.ops.modescope_triton.

Importing it needs the package triton. A launcher contains only operators of torch and wrapped
kernels, so that torch.compile sees the kernels. Kernels are not tuned: a table gives block and
warps by width, so that after the first call of a size nothing is compiled or timed, such as while
a CUDA graph is captured. A kernel's name, which a trace shows, begins with modescope_.
"""

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
