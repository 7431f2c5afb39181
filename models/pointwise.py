"""A chain of pointwise ops without matrix products, to show the overhead per op and fusion's gain.

The chain starts with `x * scale`, where `scale` is a parameter: without one, the grad modes would
all do the same work. Then sin, a multiplication by a constant and an addition of that first product
repeat:

    y <- c[k] * sin(y) + x * scale,    1/2 <= c[k] < 3/4

Neither algebra nor common subexpressions shorten it: sin stands between the multiplications, and
neighbouring rounds have different constants. Each op is one dispatch with gradients too; tanh would
be two, because autograd saves its output through a detach, but saves the input of sin.

Values and errors stay bounded at any length. |y| stays below |x * scale| + 3/4, and each round
shrinks earlier rounding errors to less than 3/4, so only those of the last few ops remain: in bf16
a relative RMS error against float64 of 0.3 to 0.4 %, for one op as for a thousand. Because of the
addition, the output and the gradient of `scale` depend on the input at any length. The drawback:
what happens early in a long chain hardly affects its end.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def constant(position: int) -> float:
    """Returns the factor at `position` of the chain, in [1/2, 3/4): exact even in bf16."""
    return 0.5 + position % 16 / 64


# One dispatched op each: (value so far, first product, position in the chain) -> next value.
CYCLE: tuple[Callable[[Tensor, Tensor, int], Tensor], ...] = (
    lambda y, first, position: torch.sin(y),
    lambda y, first, position: y * constant(position),
    lambda y, first, position: y + first,
)


class Chain(nn.Module):
    """A chain of `ops` pointwise ops. The first multiplies by the parameter `scale`, (width,)."""

    def __init__(self, width: int, ops: int) -> None:
        super().__init__()
        self.ops = ops
        self.scale = nn.Parameter(0.5 + torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the last op's result, (batch, width), for an `x` of that shape."""
        first = y = x * self.scale
        for position in range(self.ops - 1):
            y = CYCLE[position % len(CYCLE)](y, first, position)
        return y


def build(batch: int, width: int, ops: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds a chain of `ops` pointwise ops, each of which eager dispatches on its own.

    Returns:
        The module and its input, (batch, width).
    """
    return Chain(width, ops), (torch.randn(batch, width),)
