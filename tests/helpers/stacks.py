"""Models with repeated blocks, and a way to compile them that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.modes import regions
from tests.helpers.probe_models import Built

DEPTH, WIDTH = 8, 16


class Block(nn.Module):
    """Adds a layer of its input to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.layer(self.norm(x)).relu()
        return y


class Stack(nn.Module):
    """Calls its blocks one after the other, or, if `whole` is false, only their parts.

    It counts its calls, which change its result.
    """

    def __init__(self, blocks: list[nn.Module], whole: int, counts: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.whole = whole
        self.counts = counts
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        if self.counts:
            self.calls += 1
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            x = block(x) if number < self.whole else x + block.layer(block.norm(x)).relu()
        return x + 0.5 * self.calls


def stack(whole: int = DEPTH, counts: bool = False) -> Built:
    """Eight equal blocks, of which the first `whole` are called as modules."""
    blocks = [Block(WIDTH) for _ in range(DEPTH)]
    return Stack([*blocks], whole, counts), (torch.randn(2, WIDTH),)


def sequentials() -> Built:
    """Three equal Sequentials between two others; no class but torch's own."""
    equal = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(3)]
    head = nn.Sequential(nn.Linear(WIDTH, 2), nn.GELU())
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), *equal, head), (torch.randn(2, WIDTH),)


def different() -> Built:
    """Ten blocks of one class and ten widths, more than torch compiles of one function."""

    class Widens(Block):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.pad(super().forward(x), (0, 1))

    return nn.Sequential(*(Widens(width) for width in range(4, 14))), (torch.randn(2, 4),)


def encoder() -> Built:
    """Layers of a class of torch."""
    layer = nn.TransformerEncoderLayer(WIDTH, 2, WIDTH, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return net, (torch.randn(2, 3, WIDTH),)


def confused(module: nn.Module, compile_one: Callable[..., Any]) -> Any:
    """Compiles the whole with its blocks marked as regions, each by its bound method.

    Torch 2.13 then reuses the first block's code with the first block's weights.
    """
    for block in regions.find(module).values():
        marked = torch.compiler.nested_compile_region(type(block).forward)
        block.forward = MethodType(marked, block)
    return compile_one(module)
