"""How torch multiplies fp32 numbers: in fp32, in tf32 on a GPU, or in bf16 on a CPU (`bf32`).

The switches belong to the process. torch reads them in every call of an operator: cuBLAS's handle
gets its math mode each time it is taken (aten/src/ATen/cuda/CublasHandlePool.cpp), cuDNN's choice
of a convolution has the switch in its key, and oneDNN gets it with each product. So uncompiled code
follows a change at once. Code compiled for a GPU does not: Dynamo guards the switch of matrix
products (GlobalStateGuard), not that of convolutions, and Triton's kernels have the precision built
in, as a captured graph has its kernels. On a CPU compiled code calls oneDNN and follows, and Dynamo
does not guard oneDNN's own switches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

import torch

from modescope.bench.devices.devices import Prepared, Step, prepare_first

MATMUL_PRECISION = {"tf32": "high"}
"""`torch.set_float32_matmul_precision` per dtype; "highest" for all others."""

SETTINGS = ("matmul precision", "cudnn.allow_tf32")
"""The switches, by their names in `torch_settings.SETTINGS`."""

_NAMES = {"highest": "fp32", "high": "tf32", "medium": "bf16"}

_ONEDNN = ("matmul", "conv")

LEAST_ROUNDING = 1e-4
"""Of the norm of a product: rounding to bf16 changes 2e-3 of it, another order of sums 1e-6."""


def use(dtype: str) -> None:
    """Sets the switches for a variant in `dtype`; products are in fp32 for most."""
    torch.set_float32_matmul_precision(MATMUL_PRECISION.get(dtype, "highest"))
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"  # convolutions have their own switch
    _set("conv", "bf16" if dtype == "bf32" else "none")
    if dtype == "bf32":  # else torch has just set it, for its older name of the same switch
        _set("matmul", "bf16")


def of(dtype: str) -> str:
    """Returns what `used` returns after `use(dtype)`."""
    return dtype if dtype in ("tf32", "bf32") else "fp32"


def used() -> str | None:
    """Returns what the switches say now: `tf32`, `bf32`, `fp32`, `tf32 (convolutions in fp32)`.

    None if they cannot be read, because a model used torch's other switches for this.
    """
    if [_get(name) for name in _ONEDNN] == ["bf16", "bf16"]:
        return "bf32"
    try:
        products = _NAMES[torch.get_float32_matmul_precision()]
        convolutions = "tf32" if torch.backends.cudnn.allow_tf32 else "fp32"
    except RuntimeError:
        return None
    return products if products == convolutions else f"{products} (convolutions in {convolutions})"


def rounds() -> bool:
    """Whether this CPU multiplies fp32 in bf16 when it is told so, by the size of the rounding.

    On some CPUs with bf16 instructions the switch only makes torch take oneDNN's product in fp32,
    whose last bits differ (AVX512_BF16 without AMX, torch 2.13).
    """
    draw = torch.Generator().manual_seed(0)
    one, other = (torch.randn(256, 256, generator=draw) for _ in range(2))
    with kept():
        use("fp32")
        exact = one @ other
        use("bf32")
        rounded = one @ other
    return bool((rounded - exact).norm() > LEAST_ROUNDING * exact.norm())


@contextmanager
def kept() -> Iterator[None]:
    """Restores the switches after the block."""
    older, cudnn = None, torch.backends.cudnn.allow_tf32
    with suppress(RuntimeError):  # where oneDNN's own were used
        older = torch.get_float32_matmul_precision()
    onednn = {name: _get(name) for name in _ONEDNN}
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(older or "highest")
        torch.backends.cudnn.allow_tf32 = cudnn
        for name, value in onednn.items():
            _set(name, value)


@contextmanager
def exact() -> Iterator[None]:
    """Multiplies fp32 in fp32 within the block."""
    with kept():
        use("fp32")
        yield


def switched(step: Step, dtype: str) -> Prepared:
    """Returns `step` with an untimed preparation that sets the switches for `dtype`.

    It takes 0.3 us of the host (torch 2.13), so prepared calls may follow each other.
    """
    return prepare_first(step, partial(use, dtype))


def _get(name: str) -> str:
    return str(torch._C._get_fp32_precision_getter("mkldnn", name))


def _set(name: str, value: str) -> None:
    """Sets what `torch.backends.mkldnn.<name>.fp32_precision` does, in a tenth of its time."""
    torch._C._set_fp32_precision_setter("mkldnn", name, value)
