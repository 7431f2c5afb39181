"""Models and losses as users bring them, good and bad. Tests copy this file elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 4

Built = tuple[nn.Module, tuple[Tensor, ...]]


class Layer(nn.Module):
    def __init__(self, returns: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.returns = returns

    def forward(self, x: Tensor) -> Any:
        return self.returns(self.linear(x))


def layer() -> Built:
    return Layer(lambda y: y), (torch.randn(2, WIDTH),)


def its_own_loss() -> Built:
    return Layer(lambda y: {"loss": y.square().mean(), "logits": y}), (torch.randn(2, WIDTH),)


def without_parameters() -> Built:
    return nn.ReLU(), (torch.randn(2, WIDTH),)


def distance(output: Tensor, inputs: tuple[Tensor]) -> Tensor:
    """Distance to the input, as for an autoencoder."""
    return (output - inputs[0]).square().mean()


def vector(output: Tensor, inputs: tuple[Tensor]) -> Tensor:
    return (output - inputs[0]).square().mean(-1)
