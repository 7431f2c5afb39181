"""SwiGLU and rotary positions in Triton: a program has a part of a row, or heads of a token."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from torch.library import wrap_triton

from modescope.models.kernels.of_triton import launch


@triton.jit
def modescope_swiglu(gate, up, y, width, gate_stride, up_stride, BLOCK: tl.constexpr):
    """A program computes a part of a row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if gate.dtype.element_ty == tl.float64 else tl.float32
    a = tl.load(gate + row * gate_stride + cols, mask=mask, other=0.0).to(wide)
    b = tl.load(up + row * up_stride + cols, mask=mask, other=0.0).to(wide)
    result = a / (1.0 + tl.exp(-a)) * b
    tl.store(y + row * width + cols, result.to(y.dtype.element_ty), mask=mask)


@triton.jit
def modescope_swiglu_backward(
    grad, gate, up, grad_gate, grad_up, width, grad_stride, gate_stride, up_stride,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A program computes both gradients of a part of a row."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < width
    wide = tl.float64 if gate.dtype.element_ty == tl.float64 else tl.float32
    g = tl.load(grad + row * grad_stride + cols, mask=mask, other=0.0).to(wide)
    a = tl.load(gate + row * gate_stride + cols, mask=mask, other=0.0).to(wide)
    b = tl.load(up + row * up_stride + cols, mask=mask, other=0.0).to(wide)
    s = 1.0 / (1.0 + tl.exp(-a))
    of_gate, of_up = g * b * s * (1.0 + a * (1.0 - s)), g * a * s
    place = row * width + cols
    tl.store(grad_gate + place, of_gate.to(grad_gate.dtype.element_ty), mask=mask)
    tl.store(grad_up + place, of_up.to(grad_up.dtype.element_ty), mask=mask)


@triton.jit
def modescope_rope(
    x, cos, sin, y, seq, heads, half, batch_stride, seq_stride, head_stride, sign,
    HEADS: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """A program rotates some heads of a token."""
    token = tl.program_id(0).to(tl.int64)
    place = token % seq
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    cols = tl.arange(0, HALF)[None, :]
    mask = (head < heads) & (cols < half)
    wide = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    c = tl.load(cos + place * half + cols, mask=cols < half, other=0.0).to(wide)
    s = tl.load(sin + place * half + cols, mask=cols < half, other=0.0).to(wide) * sign
    at = x + token // seq * batch_stride + place * seq_stride
    at += head.to(tl.int64) * head_stride + cols
    a = tl.load(at, mask=mask, other=0.0).to(wide)
    b = tl.load(at + half, mask=mask, other=0.0).to(wide)
    to = y + (token * heads + head) * 2 * half + cols
    tl.store(to, (a * c - b * s).to(y.dtype.element_ty), mask=mask)
    tl.store(to + half, (b * c + a * s).to(y.dtype.element_ty), mask=mask)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Returns gate * sigmoid(gate) * up."""
    g, u = launch.rows(gate), launch.rows(up)
    count, width = g.shape
    y = launch.like(gate)
    block, programs = launch.pieces(width, launch.POINTWISE)
    with launch.on_device(gate):
        wrap_triton(modescope_swiglu)[(count, programs)](
            g, u, y, width, g.stride(0), u.stride(0), BLOCK=block, num_warps=4
        )
    return y


def swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the gradients of gate and up."""
    d, g, u = launch.rows(grad), launch.rows(gate), launch.rows(up)
    count, width = g.shape
    grad_gate, grad_up = launch.like(gate), launch.like(up)
    block, programs = launch.pieces(width, launch.POINTWISE)
    with launch.on_device(gate):
        wrap_triton(modescope_swiglu_backward)[(count, programs)](
            *(d, g, u, grad_gate, grad_up, width, d.stride(0), g.stride(0), u.stride(0)),
            BLOCK=block,
            num_warps=4,
        )
    return grad_gate, grad_up


def rope(x: Tensor, cos: Tensor, sin: Tensor, sign: float) -> Tensor:
    """Returns the heads of `x` rotated; `sign` is 1 forward, and -1 backward."""
    at = x if x.stride(-1) == 1 else x.contiguous()
    batch, seq, heads, width = at.shape
    y = launch.like(x)
    half = width // 2
    block = launch.block_and_warps(half)[0]
    several, programs = launch.pieces(heads, max(16, launch.POINTWISE // block))
    with launch.on_device(x):
        wrap_triton(modescope_rope)[(batch * seq, programs)](
            *(at, cos.contiguous(), sin.contiguous(), y, seq, heads, half),
            *(at.stride(0), at.stride(1), at.stride(2), sign),
            HEADS=several,
            HALF=block,
            num_warps=4,
        )
    return y
