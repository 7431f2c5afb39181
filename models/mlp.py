"""A stack of square linear layers: mostly matrix products, one pointwise op between each two."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def build(batch: int, width: int, depth: int) -> tuple[nn.Module, tuple[Tensor]]:
    """`depth` linear layers of `width` x `width`, GELU after each but the last.

    Returns:
        The module and its input, (batch, width).
    """
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*hidden, nn.Linear(width, width)), (torch.randn(batch, width),)
