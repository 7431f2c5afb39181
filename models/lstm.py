"""An LSTM and a linear head, which is applied to each step of the sequence."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    """An LSTM of `depth` layers and a linear head, all of the same width."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(width, width, depth, batch_first=True)
        self.head = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the head's output at each step, (batch, seq, width), for an `x` of that shape."""
        x, _ = self.recurrent(x)
        y: Tensor = self.head(x)
        return y


def build(batch: int, seq: int, width: int, depth: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds an LSTM of `depth` layers and a linear head, without dropout.

    Returns:
        The module and its input, (batch, seq, width).
    """
    return Tagger(width, depth), (torch.randn(batch, seq, width),)
