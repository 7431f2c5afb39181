"""One block of a decoder-only transformer: attention, norms, residuals and an MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

MLP_EXPANSION = 4  # hidden width over model width, as in GPT-2


class Block(nn.Module):
    """A pre-norm block: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, MLP_EXPANSION * width),
            nn.GELU(),
            nn.Linear(MLP_EXPANSION * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Returns the block's output, (batch, seq, width), for an `x` of that shape."""
        x = x + self.attend(self.attention_norm(x))
        x = x + self.mlp(self.mlp_norm(x))
        return x

    def attend(self, x: Tensor) -> Tensor:
        """Causal multi-head self-attention: a token attends to itself and those before it."""
        batch, seq, width = x.shape
        parts = self.query_key_value(x).view(batch, seq, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, seq, head width)
        heads = scaled_dot_product_attention(query, key, value, is_causal=True)
        mixed: Tensor = self.attention_out(heads.transpose(1, 2).reshape(batch, seq, width))
        return mixed


def build(batch: int, seq: int, width: int, heads: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds one pre-norm transformer block with causal attention.

    Returns:
        The module and its input, (batch, seq, width).

    Raises:
        ValueError: `width` cannot be split evenly over `heads`.
    """
    if width % heads:
        raise ValueError(
            f"width={width} cannot be split evenly over heads={heads}: "
            f"choose a width that is a multiple of {heads}, or another number of heads"
        )
    return Block(width, heads), (torch.randn(batch, seq, width),)


class Stack(nn.Sequential):
    """Calls its blocks in order."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the output of the last block, (batch, seq, width), for an `x` of that shape."""
        for block in self:
            x = block(x)
        return x


def build_blocks(
    batch: int, seq: int, width: int, heads: int, blocks: int
) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds `blocks` blocks like that of `build`, one after another.

    Returns:
        The module and its input, (batch, seq, width).

    Raises:
        ValueError: `width` cannot be split evenly over `heads`.
    """
    parts = [build(batch, seq, width, heads) for _ in range(blocks)]
    return Stack(*(block for block, _ in parts)), parts[0][1]
