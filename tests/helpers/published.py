"""Small models of plain torch in the style of published ones, with their default dropouts.

Each function is a model's `build`: `model.target=tests.helpers.published:resnet`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


def resnet18(batch: int = 2, size: int = 224) -> Built:
    """The channels and blocks of ResNet-18, at its input size."""
    layers = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    layers += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    stem = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    )
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    net = nn.Sequential(stem, *(Residual(*layer) for layer in layers), head)
    return net, (torch.randn(batch, 3, size, size),)


class ViT(nn.Module):
    """Patches, a class token, positions, encoder layers (Dosovitskiy et al., 2020)."""

    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.encoder(x)[:, 0])


def vit(batch: int = 4) -> Built:
    return ViT(), (torch.randn(batch, 3, 16, 16),)


class Encoder(nn.Module):
    """Embedded tokens and encoder layers, with a mask of the padding, in the style of BERT."""

    def __init__(self, width: int = 32, depth: int = 2, words: int = 100) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, ids: Tensor, padding: Tensor | None = None) -> dict[str, Any]:
        x = self.dropout(self.norm(self.embedding(ids)))
        x = self.encoder(x, src_key_padding_mask=padding)
        return {"logits": self.head(x), "pooled": x[:, 0].tanh(), "attentions": None}


def encoder(batch: int = 4, seq: int = 8) -> Built:
    return Encoder(), {"ids": torch.randint(0, 100, (batch, seq)), "padding": None}


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


class Tagger(nn.Module):
    """Two recurrent layers with dropout between them; returns the states, too."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(16, 32, 2, dropout=dropout)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Any:
        x, states = self.recurrent(x)
        return self.head(x), states


def lstm(seq: int = 6, batch: int = 4, dropout: float = 0.2) -> Built:
    return Tagger(dropout), (torch.randn(seq, batch, 16),)


class Recurrent(nn.Module):
    """The same in single steps, which torch.compile can trace."""

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


@dataclass
class Sample:
    """What a UNet returns, as in diffusers."""

    sample: Tensor
    features: Tensor | None = None


class UNet(nn.Module):
    """Down, up and across, with group norms and a time step (Ho et al., 2020)."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.dropout = nn.Dropout2d(0.1)
        self.leave = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, sample: Tensor, step: Tensor) -> Sample:
        time = self.time(step[:, None])[:, :, None, None]
        enter = self.enter(sample)
        x = functional.silu(self.norm1(self.down(enter) + time))
        x = x + self.dropout(self.middle(functional.silu(self.norm2(x))))
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return Sample(self.leave(torch.cat([x, enter], 1)))


def unet(batch: int = 2) -> Built:
    inputs = {"sample": torch.randn(batch, 3, 16, 16), "step": torch.rand(batch)}
    return UNet(), inputs


PUBLISHED: dict[str, Callable[..., Built]] = {
    each.__name__: each for each in (resnet, vit, encoder, decoder, lstm, unet)
}
