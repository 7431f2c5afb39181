"""What the launchers share: sizes of programs, rows of a tensor, the device of a launch."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn import Parameter

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether kernels run in Triton's interpreter, on a CPU: for tests only."""

BLOCKS = (
    *((16, 1), (32, 1), (64, 1), (128, 1), (256, 1), (512, 2), (1024, 4), (2048, 4), (4096, 8)),
    *((8192, 16), (16384, 16), (32768, 16), (65536, 32)),
)
"""Elements of a row that a program holds, and its warps."""

MOST_PROGRAMS = 256
"""Of a backward that adds over rows. Each keeps sums of its own, so that bits repeat."""

POINTWISE = 1024
"""Elements of a row that a program of pointwise work gets at most."""


def block_and_warps(width: int) -> tuple[int, int]:
    """Returns the smallest block that holds a row of `width` elements, and its warps.

    Raises:
        ValueError: there is none.
    """
    for block, warps in BLOCKS:
        if width <= block:
            return block, warps
    raise ValueError(
        f"kernels=triton norms rows of at most {BLOCKS[-1][0]} elements, and these have {width}"
    )


def pieces(width: int, most: int) -> tuple[int, int]:
    """Returns a block of at most `most` elements, and how many of them hold a row of `width`."""
    block = block_and_warps(width)[0] if width <= most else most
    return block, (width + block - 1) // block


def rows(x: Tensor) -> Tensor:
    """Returns `x` as (rows, width), whose elements of a row lie side by side; a view if it can."""
    two = x.reshape(x.shape[:-1].numel(), x.shape[-1])
    return two if two.stride(-1) == 1 else two.contiguous()


def like(x: Tensor) -> Tensor:
    """Returns an empty contiguous tensor of the shape, dtype and device of `x`."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def on_device(x: Tensor) -> AbstractContextManager[object]:
    """Returns a context that launches on the device of `x`: Triton takes the current one.

    Raises:
        ValueError: `x` is on a CPU.
    """
    if x.is_cuda:
        return torch.cuda.device(x.device)
    if type(x) in (Tensor, Parameter) and not INTERPRETED:  # others are those of a tracer
        raise ValueError(
            f"kernels=triton needs tensors on an NVIDIA GPU, and these are on {x.device}; there "
            "use kernels=cpp"
        )
    return nullcontext()
