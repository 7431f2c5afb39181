"""A residual convolutional network with batch norm, in the style of ResNet-18."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

STAGES = 4  # each but the first halves the resolution and doubles the width
CLASSES = 1000  # as in ImageNet


class Block(nn.Module):
    """A residual block: two 3 x 3 convolutions, whose input is added (He et al., 2015)."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        same = stride == 1 and width_in == width
        projection = nn.Conv2d(width_in, width, 1, stride, bias=False)
        self.shortcut = nn.Identity() if same else nn.Sequential(projection, nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, width_in, n, n) to (batch, width, n / stride, n / stride)."""
        y = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def build(batch: int, pixels: int, width: int, depth: int) -> tuple[nn.Module, tuple[Tensor]]:
    """Builds four stages of `depth` blocks, the first `width` wide. ResNet-18: width=64 depth=2.

    Returns:
        The module, whose output is (batch, 1000), and its input, (batch, 3, pixels, pixels).
    """
    stem = nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    )
    stages, width_in = [], width
    for stage in range(STAGES):
        wide = width * 2**stage
        blocks = [Block(width_in, wide, 1 if stage == 0 else 2)]
        blocks += [Block(wide, wide, 1) for _ in range(depth - 1)]
        stages.append(nn.Sequential(*blocks))
        width_in = wide
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width_in, CLASSES))
    network = nn.Sequential(stem, *stages, head)
    return network, (torch.randn(batch, 3, pixels, pixels),)
