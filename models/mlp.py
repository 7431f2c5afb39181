"""A stack of square linear layers with a GELU between any two: mostly matrix products."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MLP(nn.Sequential):
    """Calls its layers in order.

    It has a forward of its own, as models have: torch does not save what it compiles of a module
    that is one of its own classes (`aot_compile`).
    """

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output of the last layer, (batch, width), for an `x` of that shape."""
        for layer in self:
            x = layer(x)
        return x


def build(batch: int, width: int, depth: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds `depth` linear layers of `width` x `width`, with a GELU after each but the last.

    A layer and its GELU are one child module, so that activation checkpointing can recompute both.

    Returns:
        The module and its input, (batch, width).
    """
    hidden = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth - 1)]
    return MLP(*hidden, nn.Linear(width, width)), (torch.randn(batch, width),)
