"""Small models of plain torch in the style of published ones, with their default dropouts.

Each function is a model's `build`: `model.target=tests.helpers.published:resnet`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Built = tuple[nn.Module, Any]


class Residual(nn.Module):
    """Two convolutions with batch norms, and the input added (He et al., 2015)."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.down(x))


class ResNet(nn.Module):
    """A stem, residual blocks that halve the image, and a classifier."""

    def __init__(self, width: int, blocks: int, classes: int = 10, dropout: float = 0.0) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        widths = [width * 2**block for block in range(blocks)]
        pairs = zip([width, *widths], widths, strict=False)
        self.blocks = nn.Sequential(
            *(Residual(into, out, 1 + (into != out)) for into, out in pairs)
        )
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Any:
        x = self.blocks(functional.relu(self.norm(self.stem(x))))
        return self.classifier(self.dropout(x.mean((2, 3))))


def resnet(batch: int = 4, width: int = 8, blocks: int = 3, dropout: float = 0.0) -> Built:
    return ResNet(width, blocks, dropout=dropout), (torch.randn(batch, 3, 16, 16),)


class Decoder(nn.Module):
    """Causal attention with dropout, in the style of GPT-2."""

    def __init__(self, width: int = 32, heads: int = 4, words: int = 100) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(64, width)
        self.heads, self.attention_dropout = heads, 0.1
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = self.dropout(x)
        parts = self.into(self.norm1(x)).chunk(3, -1)
        query, key, value = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
        mixed = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=True,
            dropout_p=self.attention_dropout if self.training else 0.0,
        )
        x = x + self.dropout(self.out(mixed.transpose(1, 2).flatten(2)))
        x = x + self.dropout(self.mlp(self.norm2(x)))
        logits = x @ self.words.weight.t()
        return logits, logits.argmax(-1)


def decoder(batch: int = 4, seq: int = 8) -> Built:
    return Decoder(), (torch.randint(0, 100, (batch, seq)),)


class Recurrent(nn.Module):
    """Two GRU cells with dropout between them, called step by step; returns their states, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GRUCell(16, 32), nn.GRUCell(32, 32)
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        lower = upper = x.new_zeros(x.shape[1], 32)
        for part in x:
            lower = self.first(part, lower)
            upper = self.second(self.dropout(lower), upper)
        return self.head(upper), (lower, upper)


def recurrent(seq: int = 4, batch: int = 4) -> Built:
    return Recurrent(), (torch.randn(seq, batch, 16),)
