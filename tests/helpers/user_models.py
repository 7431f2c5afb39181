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
    """A linear layer; `first` is called before it."""

    def __init__(self, first: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.first = first

    def forward(self, x: Tensor) -> Any:
        if self.first is not None:
            self.first()
        return self.linear(x)


class WrongWhenCompiled(Layer):
    """Stands for a miscompilation."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x) * (1.5 if torch.compiler.is_compiling() else 1.0)


def example(batch: int = 2) -> Tensor:
    return torch.randn(batch, WIDTH)


def positional(batch: int = 2) -> Built:
    return Layer(), (example(batch),)


def keyword() -> Built:
    return Layer(), {"x": example()}


def talkative() -> Built:
    return Layer(lambda: print("hello from forward")), (example(),)


def wrong_when_compiled() -> Built:
    return WrongWhenCompiled(), (example(),)


def aborting() -> Built:
    return Layer(os.abort), (example(),)


def aborting_while_built() -> Built:
    os.abort()


def aborting_under_a_profiler() -> Built:
    def abort_if_watched() -> None:
        if torch._C._autograd._profiler_enabled():
            os.abort()

    return Layer(abort_if_watched), (example(),)


def sleeping() -> Built:
    return Layer(lambda: time.sleep(600)), (example(),)


def gigantic() -> Built:
    return Layer(lambda: torch.ones(2**50)), (example(),)


def raising() -> Built:
    def complain() -> None:
        raise RuntimeError("not today")

    return Layer(complain), (example(),)


def alone() -> nn.Module:
    return Layer()


def nothing() -> None:
    return None
