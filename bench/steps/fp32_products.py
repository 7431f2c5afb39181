"""How torch multiplies fp32 numbers: in fp32, or in tf32. The switches belong to the process.

torch reads them in every call of an operator: cuBLAS's handle gets its math mode each time it is
taken (aten/src/ATen/cuda/CublasHandlePool.cpp), and cuDNN's choice of a convolution has the switch
in its key. So uncompiled code follows a change at once. Compiled code does not: Dynamo guards the
switch of matrix products (GlobalStateGuard), not that of convolutions, and Triton's kernels have
the precision built in, as a captured graph has its kernels.
"""

from __future__ import annotations

from functools import partial

import torch

from modescope.bench.devices.devices import Prepared, Step, prepare_first

MATMUL_PRECISION = {"tf32": "high"}
"""`torch.set_float32_matmul_precision` per dtype; "highest" for all others."""

SETTINGS = ("matmul precision", "cudnn.allow_tf32")
"""The switches, by their names in `torch_settings.SETTINGS`."""

_NAMES = {"highest": "fp32", "high": "tf32", "medium": "bf16"}


def use(dtype: str) -> None:
    """Sets the switches for a variant in `dtype`: products in tf32, or in fp32 for all others."""
    torch.set_float32_matmul_precision(MATMUL_PRECISION.get(dtype, "highest"))
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"  # convolutions have their own switch


def of(dtype: str) -> str:
    """Returns what `used` returns after `use(dtype)`."""
    return "tf32" if dtype == "tf32" else "fp32"


def used() -> str | None:
    """Returns what the switches say now: `tf32`, `fp32`, or `tf32 (convolutions in fp32)`.

    None if they cannot be read, because a model used torch's other switches for this.
    """
    try:
        products = _NAMES[torch.get_float32_matmul_precision()]
        convolutions = "tf32" if torch.backends.cudnn.allow_tf32 else "fp32"
    except RuntimeError:
        return None
    return products if products == convolutions else f"{products} (convolutions in {convolutions})"


def switched(step: Step, dtype: str) -> Prepared:
    """Returns `step` with an untimed preparation that sets the switches for `dtype`.

    It takes 0.2 us of the host (torch 2.13), so prepared calls may follow each other.
    """
    return prepare_first(step, partial(use, dtype))
