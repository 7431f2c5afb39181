"""An operator that is registered from C++."""

from __future__ import annotations

from modescope.models import cpp_library

SOURCE = """
#include <torch/library.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>

namespace {
at::Tensor scale(const at::Tensor& x, double s) { return at::mul(x, s); }
at::Tensor scale_meta(const at::Tensor& x, double s) { return at::empty_like(x); }
}

TORCH_LIBRARY(modescope_cpp, m) { m.def("scale(Tensor x, float s) -> Tensor"); }
TORCH_LIBRARY_IMPL(modescope_cpp, CPU, m) { m.impl("scale", scale); }
TORCH_LIBRARY_IMPL(modescope_cpp, Meta, m) { m.impl("scale", scale_meta); }
"""


def load() -> None:
    """Makes `torch.ops.modescope_cpp.scale(x, s)` callable; compiles it in about ten seconds."""
    cpp_library.load("modescope_cpp", SOURCE)
