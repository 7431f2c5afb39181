"""The five operators in C++ for a CPU, from kernels.cpp: torch.ops.modescope_kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from modescope.models import cpp_library
from modescope.models.kernels import Operators, registered

NAMESPACE = "modescope_kernels"
SOURCE = Path(__file__).with_name("kernels.cpp")
HEADER = Path(__file__).with_name("rows.h")

FLAGS = ("-fopenmp", "-DAT_PARALLEL_OPENMP=1", "-fno-math-errno", "-fno-trapping-math")

VECTORS = {
    "AVX512": (
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"),
        *("-DCPU_CAPABILITY=AVX512", "-DCPU_CAPABILITY_AVX512"),
    ),
    "AVX2": ("-mavx2", "-mfma", "-mf16c", "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"),
}
"""The processor's vectors, as torch calls them -> flags. Others have what ATen uses by default."""


@cache
def load() -> Operators:
    """Returns the operators; compiles them first, in about 30 s, if this machine has not yet.

    Raises:
        ValueError: there is no compiler of C++, or none with OpenMP.
    """
    flags = (*FLAGS, *VECTORS.get(torch.backends.cpu.get_cpu_capability(), ()))
    cpp_library.load(NAMESPACE, SOURCE.read_text(), (HEADER,), flags)
    for name, fake in FAKES.items():
        torch.library.register_fake(f"{NAMESPACE}::{name}", fake)
    registered.add_backward(NAMESPACE)
    return registered.operators(NAMESPACE)


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _of_rows(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[:-1].numel(), dtype=registered.stats_dtype(x))


FAKES: dict[str, Callable[..., Any]] = {
    "rmsnorm": lambda x, residual, weight, eps: (_like(x), _like(x), _of_rows(x)),
    "rmsnorm_backward": lambda grad_y, grad_h, h, weight, rstd: (_like(h), _like(weight)),
    "swiglu": lambda gate, up: _like(gate),
    "swiglu_backward": lambda grad, gate, up: (_like(gate), _like(up)),
    "rope": lambda x, cos, sin, sign: _like(x),
    "layernorm_gelu": lambda x, weight, bias, eps: (_like(x), _of_rows(x), _of_rows(x)),
    "layernorm_gelu_backward": lambda grad, x, weight, bias, mean, rstd: (
        _like(x),
        _like(weight),
        _like(bias),
    ),
    "cross_entropy": lambda logits, target: (logits.new_empty(len(logits)), _of_rows(logits)),
    "cross_entropy_backward": lambda grad, logits, target, lse: _like(logits),
}
"""Operator -> a function that returns results of the same shapes, without their values."""
