"""Models as users bring them, good and bad. Tests copy this file out of the repository."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 4

Built = tuple[nn.Module, tuple[Tensor] | dict[str, Tensor]]


class Layer(nn.Module):
    """A linear layer; forward calls `first` before it."""

    def __init__(self, first: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.first = first

    def forward(self, x: Tensor) -> Any:
        self.first()
        return self.linear(x)


class WrongWhenCompiled(Layer):
    """Returns other results when it is compiled, as if it were miscompiled."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x) * (1.5 if torch.compiler.is_compiling() else 1.0)


def positional(batch: int = 2) -> Built:
    return Layer(), (torch.randn(batch, WIDTH),)


def keyword() -> Built:
    return Layer(), {"x": torch.randn(2, WIDTH)}


def wrong_when_compiled() -> Built:
    return WrongWhenCompiled(), (torch.randn(2, WIDTH),)


def aborting_while_built() -> Built:
    os.abort()


def nothing() -> None:
    return None


def building(first: Callable[[], object]) -> Callable[[], Built]:
    """A function that builds a `Layer` whose forward calls `first`."""

    def build() -> Built:
        return Layer(first), (torch.randn(2, WIDTH),)

    return build


def abort_under_a_profiler() -> None:
    if torch._C._autograd._profiler_enabled():
        os.abort()


def complain() -> None:
    raise RuntimeError("not today")


talkative = building(lambda: print("hello from forward"))
aborting = building(os.abort)
aborting_under_a_profiler = building(abort_under_a_profiler)
sleeping = building(lambda: time.sleep(600))
gigantic = building(lambda: torch.ones(2**50))
raising = building(complain)
