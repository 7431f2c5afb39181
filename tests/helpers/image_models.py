"""Models of images, whose weights have four dimensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class OfImages(nn.Module):
    """Convolutions, one of which is of single pixels, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8))
        self.point = nn.Conv2d(8, 2, 1)
        self.last = nn.Linear(72, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        seen: Tensor = self.last(self.point(self.first(x + y).relu()).flatten(1))
        return seen


def convolutions() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """A model of two images; one image is given twice."""
    torch.manual_seed(0)
    image = torch.randn(2, 3, 8, 8)
    return OfImages(), (image, image)
