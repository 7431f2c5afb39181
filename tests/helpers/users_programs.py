"""Models that a deep copy, a cast of all floats or a second call turns into other programs.

Each function is the `build` of a model, unless it begins with a capital letter.
"""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from tests.helpers.probe_models import WIDTH

Built = tuple[nn.Module, Any]


def two_layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def rows() -> tuple[Tensor]:
    return (torch.randn(8, WIDTH),)


class Locked(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(*two_layers())
        self.lock = threading.Lock()


def locked() -> Built:
    return Locked(), rows()


def pruned() -> Built:
    net: Any = two_layers()
    prune.l1_unstructured(net[0], "weight", amount=0.4)
    return net, rows()


HOOK_CALLS: list[int] = []


def hooked() -> Built:
    net = two_layers()
    net.get_parameter("0.weight").register_hook(lambda gradient: HOOK_CALLS.append(1))
    return net, rows()


def sharing() -> Built:
    net: Any = two_layers()
    net[2].weight.data = net[0].weight.data
    return net, rows()


def adapted() -> Built:
    """Its first layer's forward is a closure over the layer that it replaces."""
    net: Any = two_layers()
    before, up = net[0].forward, nn.Linear(WIDTH, WIDTH)
    net[0].up = up
    net[0].forward = lambda x: before(x) + up(x)
    return net, rows()


class Registered(nn.Module):
    """Finds its layer in a table of the process, in which the last one built stands."""

    TABLE: ClassVar[dict[str, nn.Module]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.TABLE["layer"] = self.layer

    def forward(self, x: Tensor) -> Any:
        return self.TABLE["layer"](x)


def registered() -> Built:
    return Registered(), rows()


SINGLE = two_layers()


def single() -> Built:
    return SINGLE, rows()


class Gain:
    """A deep copy of it lacks its number."""

    def __init__(self, number: float | None = 2.0) -> None:
        self.number = number

    def __deepcopy__(self, known: Any) -> Gain:
        return Gain(None)


class Gains(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gain = nn.Linear(WIDTH, WIDTH), Gain()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x) * self.gain.number
        return y


GAINS = Gains()


def gains(single: bool = False) -> Built:
    return GAINS if single else Gains(), rows()


class Slope(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.net(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=self.training)
        return y.detach(), slope


def slope() -> Built:
    return Slope(), (torch.randn(8, WIDTH, requires_grad=True),)


class Spaced(Tensor):
    """A subclass whose attribute torch does not know."""


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.layer(x) * x.spacing


def spaced() -> Built:
    x: Any = torch.randn(8, WIDTH).as_subclass(Spaced)
    x.spacing = 0.5
    return Scaled(), (x,)


def double() -> Built:
    return two_layers().double(), (torch.randn(8, WIDTH, dtype=torch.float64),)


class Narrow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        weight = torch.randn(WIDTH, WIDTH).to(torch.float8_e4m3fn)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype), self.bias)


def narrow() -> Built:
    return Narrow(), rows()


class Decodes(nn.Module):
    """A step of a cache with room for a few calls; its position is a number or a buffer."""

    keys: Tensor
    position: Tensor

    def __init__(self, by_number: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(6, WIDTH))
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.by_number, self.number = by_number, 0

    def forward(self, x: Tensor) -> Tensor:
        if self.by_number:
            self.keys[self.number] = self.layer(x[0])
            self.number += 1
        else:
            self.keys.index_copy_(0, self.position, self.layer(x[:1]))
            self.position += 1
        return x @ self.keys.t()


def decodes(by_number: bool = False) -> Built:
    return Decodes(by_number), rows()
