"""Cross entropy in Triton: a program reads the logits of a row in pieces, once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import wrap_triton

from modescope.models.kernels.of_triton import launch
from modescope.models.kernels.registered import stats_dtype

PIECE = 4096
WARPS = 8


@triton.jit
def modescope_cross_entropy(x, target, loss, lse, width, x_stride, BLOCK: tl.constexpr):
    """A program reads a row in pieces: the largest so far, and the sum of exponentials below it."""
    row = tl.program_id(0).to(tl.int64)
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    top = tl.full((), -float("inf"), wide)
    total = tl.full((), 0.0, wide)
    for start in range(0, width, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * x_stride + cols, mask=cols < width, other=-float("inf")).to(wide)
        higher = tl.maximum(top, tl.max(a, 0))
        base = tl.where(higher == -float("inf"), 0.0, higher)  # a row may begin with -inf
        total = total * tl.exp(top - base) + tl.sum(tl.exp(a - base), 0)
        top = higher
    at = tl.load(target + row)
    known = (at >= 0) & (at < width)  # nothing is read beyond the row; no such class gives nan
    chosen = tl.load(x + row * x_stride + at, mask=known, other=float("nan")).to(wide)
    tl.store(lse + row, top + tl.log(total))
    tl.store(loss + row, (top - chosen + tl.log(total)).to(loss.dtype.element_ty))


@triton.jit
def modescope_cross_entropy_backward(
    grad, x, target, lse, grad_x, width, x_stride, BLOCK: tl.constexpr
):
    """A program computes a piece of a row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    a = tl.load(x + row * x_stride + cols, mask=mask, other=0.0).to(wide)
    p = tl.exp(a - tl.load(lse + row)) - tl.where(cols == tl.load(target + row), 1.0, 0.0)
    result = p * tl.load(grad + row).to(wide)
    tl.store(grad_x + row * width + cols, result.to(grad_x.dtype.element_ty), mask=mask)


def cross_entropy(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the loss of each row, and the logarithm of its sum of exponentials."""
    x = launch.rows(logits)
    count, width = x.shape
    loss = torch.empty(count, dtype=x.dtype, device=x.device)
    lse = torch.empty(count, dtype=stats_dtype(x), device=x.device)
    block, _ = launch.pieces(width, PIECE)
    with launch.on_device(logits):
        wrap_triton(modescope_cross_entropy)[(count,)](
            *(x, target.contiguous(), loss, lse, width, x.stride(0)), BLOCK=block, num_warps=WARPS
        )
    return loss, lse


def cross_entropy_backward(grad: Tensor, logits: Tensor, target: Tensor, lse: Tensor) -> Tensor:
    """Returns the gradient of the logits."""
    x = launch.rows(logits)
    count, width = x.shape
    grad_x = launch.like(logits)
    block, programs = launch.pieces(width, PIECE)
    with launch.on_device(logits):
        wrap_triton(modescope_cross_entropy_backward)[(count, programs)](
            *(grad.contiguous(), x, target.contiguous(), lse, grad_x, width, x.stride(0)),
            BLOCK=block,
            num_warps=WARPS,
        )
    return grad_x
