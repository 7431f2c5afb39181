"""Models whose graph breaks were counted by hand. Tests copy this file out of the repository.

`@counted(sites, functions)` holds the counts of a reader: the expressions that torch.compile cannot
trace, on lines that end in `# breaks`, and the functions that run in Python because of them, as a
whole or from a break on.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WIDTH = 4


@dataclass(frozen=True)
class Counted:
    """What was counted by hand."""

    model: type[Net]
    sites: int
    in_eager: tuple[str, ...]


BY_HAND: dict[str, Counted] = {}


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)


def counted(sites: int, *in_eager: str) -> Callable[[type[Net]], type[Net]]:
    def register(model: type[Net]) -> type[Net]:
        BY_HAND[model.__name__] = Counted(model, sites, in_eager)
        return model

    return register


def build(name: str) -> tuple[nn.Module, Tensor]:
    return BY_HAND[name].model(), torch.rand(3, WIDTH) + 0.5


# One break or more


@counted(1)
class Branch(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        if y.mean() > 0:  # breaks
            y = y * 2
        return self.second(y)


@counted(1)
class TrailingItem(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        self.last = y.sum().item()  # breaks
        return y


def _double(y: Tensor) -> Tensor:
    return y * 2


not_compiled = torch._dynamo.disable(_double)


@counted(1)
class Disabled(Net):
    def forward(self, x: Tensor) -> Any:
        y = not_compiled(self.first(x))  # breaks
        return self.second(y)


def talking_parts(y: Tensor) -> Iterator[Tensor]:
    yield y * 2
    print("between two parts")  # breaks
    yield y + 1


@counted(1, "Generator.forward")
class Generator(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        a, b = talking_parts(y)
        return self.second(a + b)


@counted(1, "Tried.forward")
class Tried(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        try:
            print("tried")  # breaks
            y = y * 2
        except ValueError:
            y = y * 3
        return self.second(y)


@counted(1, "Property.forward")
class Property(Net):
    @property
    def scale(self) -> int:
        print("in a property")  # breaks
        return 2

    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        y = y * self.scale
        return self.second(y)


@counted(1, "Loop.forward")
class Loop(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        for _ in range(5):
            y = y * 2
            print("in a loop")  # breaks
        return self.second(y)


# From Python 3.12 on torch cannot resume such a loop.
_WHILE = ("While.forward",) * (sys.version_info >= (3, 12))


@counted(1, *_WHILE)
class While(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x).abs()
        while y.sum() > 1:  # breaks
            y = y / 2
        return self.second(y)


@counted(1, "LoopAfterBreak.forward")
class LoopAfterBreak(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        for _ in range(2):
            y = talking(y)
        return self.second(y)


def talking(y: Tensor) -> Tensor:
    z = y * 2
    print("in a function")  # breaks
    return z + 1


@counted(1)
class Nested(Net):
    def forward(self, x: Tensor) -> Any:
        y = talking(self.first(x))
        return self.second(y)


@counted(2)
class Two(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        print("the first of two")  # breaks
        y = self.second(y)
        if y.mean() > -100:  # breaks
            y = y * 2
        return y + 1


@counted(2)
class TwoOnALine(Net):
    def forward(self, x: Tensor) -> Any:
        return x * x.sum().item() + x.abs() / x.mean().item()  # breaks


@counted(2)
class TwoOnALineFromOneColumn(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        scale = not_compiled(y).sum().item()  # breaks
        return self.second(y) * scale


# Both ways out run the same line, of which Python has two copies.
@counted(1)
class Finally(Net):
    def forward(self, x: Tensor) -> Any:
        return self.leaving(self.first(x), True) + self.leaving(self.second(x), False)

    def leaving(self, y: Tensor, early: bool) -> Tensor:
        try:
            if early:
                return y * 2
        finally:
            print("at the end")  # breaks
        return y


# Up to Python 3.11 a comprehension is a function of its own, and its loop cannot be resumed.
_COMPREHENSION = ("Comprehension.forward.<locals>.<listcomp>",) * (sys.version_info < (3, 12))


@counted(1, *_COMPREHENSION)
class Comprehension(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        sums = [(y * i).sum().item() for i in range(3)]  # breaks
        return self.second(y) * sums[1]


@counted(1)
class Recompiled(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        return self.second(torch.cat([talking(y[:1]), talking(y[1:])]))


@counted(2)
class OverLines(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        print(  # breaks
            "over",
            "lines",
        )
        y = torch.add(
            y,
            y.sum().item(),  # breaks
        )
        return self.second(y)


@contextlib.contextmanager
def nothing_else() -> Iterator[None]:
    yield


@counted(1, "OwnContext.forward")
class OwnContext(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        with nothing_else():
            print("within a context of one's own")  # breaks
            y = y + 1
        return self.second(y)


@counted(1)
class Checkpointed(Net):
    def forward(self, x: Tensor) -> Any:
        return self.second(checkpoint(talking, self.first(x), use_reentrant=False))


@counted(1)
class Hooked(Net):
    def __init__(self) -> None:
        super().__init__()
        self.first.register_forward_hook(self.hook)

    def hook(self, module: nn.Module, args: Any, output: Tensor) -> Tensor:
        print("in a hook")  # breaks
        return output + 1

    def forward(self, x: Tensor) -> Any:
        return self.second(self.first(x))


# It is torch.compile that calls such a forward: no line of the model is to blame.
@counted(1)
class DisabledForward(Net):
    def _forward(self, x: Tensor) -> Any:
        return self.second(self.first(x))

    forward = torch._dynamo.disable(_forward)


# No break


@counted(0)
class Plain(Net):
    def forward(self, x: Tensor) -> Any:
        return self.second(self.first(x).relu())


@counted(0)
class Shapes(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        if y.shape[0] > 2 and y.dim() == 2:
            y = y * len(y)
        return self.second(y)


@counted(0)
class TriedQuietly(Net):
    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        try:
            if y.shape[0] == 3:
                raise ValueError("not 3")
        except ValueError:
            y = y * 3
        finally:
            y = y + 1
        return self.second(y)


def quiet_parts(y: Tensor) -> Iterator[Tensor]:
    yield y * 2
    yield y + 1


@counted(0)
class GeneratorQuietly(Net):
    def forward(self, x: Tensor) -> Any:
        return self.second(sum(quiet_parts(self.first(x)), torch.zeros(WIDTH)))
