"""Random numbers are switched off by the model's own switches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from modescope.bench.steps.correctness.silencing import SWITCHES


class DropPath(nn.Module):
    """As in timm."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_prob = 0.3

    def forward(self, x: Tensor) -> Tensor:
        kept = x.new_empty(len(x), 1).bernoulli_(1 - self.drop_prob)
        return x * kept / (1 - self.drop_prob)


class StochasticDepth(nn.Module):
    """As in torchvision."""

    def __init__(self) -> None:
        super().__init__()
        self.p = 0.3

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand(()) >= self.p)


class Attention(nn.Module):
    """As in transformers: a number that is given to a function."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_dropout = 0.3

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.attention_dropout, self.training)


class Literal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 0.3, self.training)


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x) if self.training else x


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.LSTM(8, 8, 2, dropout=0.3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)[0]
        return y


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "dropout": (lambda: nn.Dropout(0.3), 1),
    "alpha dropout": (lambda: nn.AlphaDropout(0.3), 1),
    "drop path": (DropPath, 1),
    "stochastic depth": (StochasticDepth, 1),
    "attention": (Attention, 1),
    "recurrent": (Recurrent, 1),
    "transformer": (lambda: nn.TransformerEncoderLayer(8, 2, 16), 1),
    "rrelu": (nn.RReLU, 2),
    "literal": (Literal, 2),
    "noise": (Noise, 2),
}


def draws(module: nn.Module) -> bool:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))
    return not all(torch.equal(module(x), module(x)) for _ in range(5))


@pytest.mark.parametrize("name", MODELS)
def test_the_first_switches_that_are_needed_silence_a_model(name: str) -> None:
    build, needed = MODELS[name]
    torch.manual_seed(0)
    module = nn.Sequential(build(), nn.Linear(8, 8)).train()
    seen = [draws(module)]
    for turn_off in SWITCHES.values():
        turn_off(module)
        seen.append(draws(module))
    assert seen == [True] * needed + [False] * (1 + len(SWITCHES) - needed)


def test_norms_and_recurrent_networks_go_on_training() -> None:
    """A batch norm computes something else in eval(); cuDNN has no backward there."""
    module = nn.Sequential(nn.BatchNorm1d(8), nn.LSTM(8, 8), nn.Dropout(0.3)).train()
    for turn_off in SWITCHES.values():
        turn_off(module)
    assert [part.training for part in module] == [True, True, False]


def test_other_numbers_stay() -> None:
    relu, norm = nn.LeakyReLU(0.2), nn.BatchNorm1d(8, eps=0.1)
    next(iter(SWITCHES.values()))(nn.Sequential(relu, norm))
    assert (relu.negative_slope, norm.eps) == (0.2, 0.1)
