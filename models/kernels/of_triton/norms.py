"""Norms in Triton: a program holds a whole row. Weight gradients are sums of programs' own sums."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import wrap_triton

from modescope.models.kernels.of_triton import launch
from modescope.models.kernels.registered import stats_dtype

# Loops over rows are `while`: a variable of range() is a Python int in Triton's interpreter.


@triton.jit
def modescope_rmsnorm(
    x, residual, weight, y, h, rstd, width, x_stride, residual_stride, eps, BLOCK: tl.constexpr
):
    """A program norms a row of x + residual."""
    row = tl.program_id(0).to(tl.int64)  # an offset may exceed 2**31
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    a = tl.load(x + row * x_stride + cols, mask=mask, other=0.0).to(wide)
    a += tl.load(residual + row * residual_stride + cols, mask=mask, other=0.0).to(wide)
    rounded = a.to(h.dtype.element_ty)  # the sum is normed as it is stored, like in eager
    tl.store(h + row * width + cols, rounded, mask=mask)
    a = rounded.to(wide)
    s = 1.0 / tl.sqrt(tl.sum(a * a, 0) / width + eps)
    tl.store(rstd + row, s)
    w = tl.load(weight + cols, mask=mask, other=0.0).to(wide)
    tl.store(y + row * width + cols, (a * s * w).to(y.dtype.element_ty), mask=mask)


@triton.jit
def modescope_rmsnorm_backward(
    grad_y, grad_h, h, weight, rstd, grad_x, part, count, width, y_stride, h_stride,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A program goes through rows, and keeps its own sum of weight gradients."""
    own = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if h.dtype.element_ty == tl.float64 else tl.float32
    w = tl.load(weight + cols, mask=mask, other=0.0).to(wide)
    total = tl.zeros((BLOCK,), wide)
    row = own
    while row < count:
        g = tl.load(grad_y + row * y_stride + cols, mask=mask, other=0.0).to(wide)
        k = tl.load(grad_h + row * h_stride + cols, mask=mask, other=0.0).to(wide)
        a = tl.load(h + row * width + cols, mask=mask, other=0.0).to(wide)
        s = tl.load(rstd + row)
        total += g * a * s
        along = tl.sum(g * w * a, 0) * s * s * s / width
        gradient = k + g * w * s - a * along
        tl.store(grad_x + row * width + cols, gradient.to(grad_x.dtype.element_ty), mask=mask)
        row += tl.num_programs(0)
    tl.store(part + own * width + cols, total, mask=mask)


@triton.jit
def modescope_layernorm_gelu(
    x, weight, bias, y, mean, rstd, width, x_stride, eps, BLOCK: tl.constexpr
):
    """A program norms a row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    a = tl.load(x + row * x_stride + cols, mask=mask, other=0.0).to(wide)
    m = tl.sum(a, 0) / width
    off = tl.where(mask, a - m, 0.0)
    s = 1.0 / tl.sqrt(tl.sum(off * off, 0) / width + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, s)
    w = tl.load(weight + cols, mask=mask, other=0.0).to(wide)
    z = off * s * w + tl.load(bias + cols, mask=mask, other=0.0).to(wide)
    z = z * 0.5 * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(y + row * width + cols, z.to(y.dtype.element_ty), mask=mask)


@triton.jit
def modescope_layernorm_gelu_backward(
    grad, x, weight, bias, mean, rstd, grad_x, weight_part, bias_part, count, width,
    grad_stride, x_stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program goes through rows, and keeps its own sums of gradients."""
    own = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    w = tl.load(weight + cols, mask=mask, other=0.0).to(wide)
    b = tl.load(bias + cols, mask=mask, other=0.0).to(wide)
    weight_total, bias_total = tl.zeros((BLOCK,), wide), tl.zeros((BLOCK,), wide)
    row = own
    while row < count:
        s = tl.load(rstd + row)
        a = tl.load(x + row * x_stride + cols, mask=mask, other=0.0).to(wide)
        n = tl.where(mask, (a - tl.load(mean + row)) * s, 0.0)
        z = n * w + b
        density = 0.3989422804014327 * tl.exp(-0.5 * z * z)
        g = tl.load(grad + row * grad_stride + cols, mask=mask, other=0.0).to(wide)
        e = g * (0.5 * (1.0 + tl.erf(z * 0.7071067811865476)) + z * density)
        weight_total += e * n
        bias_total += e
        d = e * w
        gradient = s * (d - tl.sum(d, 0) / width - n * (tl.sum(d * n, 0) / width))
        tl.store(grad_x + row * width + cols, gradient.to(grad_x.dtype.element_ty), mask=mask)
        row += tl.num_programs(0)
    tl.store(weight_part + own * width + cols, weight_total, mask=mask)
    tl.store(bias_part + own * width + cols, bias_total, mask=mask)


def rmsnorm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns y, h and the inverse norm of each row."""
    a, b = launch.rows(x), launch.rows(residual)
    count, width = a.shape
    y, h = launch.like(x), launch.like(x)
    rstd = torch.empty(count, dtype=stats_dtype(x), device=x.device)
    block, warps = launch.block_and_warps(width)
    with launch.on_device(x):
        wrap_triton(modescope_rmsnorm)[(count,)](
            *(a, b, weight.contiguous(), y, h, rstd, width, a.stride(0), b.stride(0), eps),
            BLOCK=block,
            num_warps=warps,
        )
    return y, h, rstd


def rmsnorm_backward(
    grad_y: Tensor, grad_h: Tensor, h: Tensor, weight: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the gradients of x, which is that of the residual, too, and of the weight."""
    g, k, w = launch.rows(grad_y), launch.rows(grad_h), weight.contiguous()
    count, width = g.shape
    grad_x, part = launch.like(h), _part(h, count, width)
    block, warps = launch.block_and_warps(width)
    with launch.on_device(h):
        wrap_triton(modescope_rmsnorm_backward)[(part.shape[0],)](
            *(g, k, h, w, rstd, grad_x, part, count, width, g.stride(0), k.stride(0)),
            BLOCK=block,
            num_warps=warps,
        )
    return grad_x, part.sum(0).to(weight.dtype)


def layernorm_gelu(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns y, and the mean and the inverse deviation of each row."""
    a, w, b = launch.rows(x), weight.contiguous(), bias.contiguous()
    count, width = a.shape
    y, mean = launch.like(x), torch.empty(count, dtype=stats_dtype(x), device=x.device)
    rstd = torch.empty_like(mean)
    block, warps = launch.block_and_warps(width)
    with launch.on_device(x):
        wrap_triton(modescope_layernorm_gelu)[(count,)](
            *(a, w, b, y, mean, rstd, width, a.stride(0), eps), BLOCK=block, num_warps=warps
        )
    return y, mean, rstd


def layernorm_gelu_backward(
    grad: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the gradients of x, weight and bias."""
    g, a, w, b = launch.rows(grad), launch.rows(x), weight.contiguous(), bias.contiguous()
    count, width = a.shape
    grad_x, weight_part = launch.like(x), _part(x, count, width)
    bias_part = torch.empty_like(weight_part)
    block, warps = launch.block_and_warps(width)
    with launch.on_device(x):
        wrap_triton(modescope_layernorm_gelu_backward)[(weight_part.shape[0],)](
            *(g, a, w, b, mean, rstd, grad_x, weight_part, bias_part, count, width),
            *(g.stride(0), a.stride(0)),
            BLOCK=block,
            num_warps=warps,
        )
    return grad_x, weight_part.sum(0).to(weight.dtype), bias_part.sum(0).to(bias.dtype)


def _part(x: Tensor, count: int, width: int) -> Tensor:
    """Returns a row of sums for each program. There is one even without rows, whose sums are 0."""
    programs = max(1, min(count, launch.MOST_PROGRAMS))
    return torch.empty((programs, width), dtype=stats_dtype(x), device=x.device)
