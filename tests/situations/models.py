"""Small models, each of which has one property that decides how fast its modes are.

Each function is a model's `build`: `model.target=tests.situations.models:tiny`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

Built = tuple[nn.Module, tuple[Tensor, ...]]


def tiny() -> Built:
    """Two operators on eight numbers: a call is nothing but overhead."""
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()), (torch.randn(1, 8),)


def product() -> Built:
    """One matrix product of 34 MFLOP: nothing to fuse."""
    return nn.Linear(1024, 1024), (torch.randn(16, 1024),)


def large_product() -> Built:
    """One matrix product of 268 MFLOP, beside which all overhead is small."""
    return nn.Linear(1024, 1024), (torch.randn(128, 1024),)


def layer() -> Built:
    """A matrix product of 268 MFLOP and a GELU: compiling takes seconds, and has little to fuse."""
    return nn.Sequential(nn.Linear(1024, 1024), nn.GELU()), (torch.randn(128, 1024),)


def perceptron() -> Built:
    """Two matrix products of 1.1 GFLOP each, with a GELU between them."""
    layers = (nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024))
    return nn.Sequential(*layers), (torch.randn(512, 1024),)


class Activations(nn.Module):
    """Sixteen pointwise operators, no matrix product, no parameter."""

    def forward(self, x: Tensor) -> Tensor:
        for factor in (0.5, 0.75, 1.25, 1.5):
            x = torch.relu(x * factor) + x * 0.25
        return x


def activations() -> Built:
    """Pointwise operators on 1 MiB: each reads and writes all of it, unless they are fused."""
    return Activations(), (torch.randn(256, 1024),)


class Norms(nn.Module):
    """Layer norms with residuals, which fuse well."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        for norm in self.norms:
            x = x + torch.sigmoid(norm(x)) * 0.5
        return x


def norms() -> Built:
    """Layer norms on 512 KiB."""
    return Norms(512, 6), (torch.randn(256, 512),)


class Scale(nn.Module):
    """A multiplication by a parameter of one number."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def bandwidth() -> Built:
    """One pass over 32 MiB: the memory is the limit in every mode."""
    return Scale(), (torch.randn(4096, 2048),)


class Adapter(nn.Module):
    """A low-rank correction of a layer's output (Hu et al., 2021), switched off."""

    def __init__(self, width: int, rank: int = 2) -> None:
        super().__init__()
        self.active = False
        self.down, self.up = nn.Linear(width, rank), nn.Linear(rank, width)

    def forward(self, x: Tensor) -> Tensor:
        correction: Tensor = self.up(self.down(x))
        return x + correction


class Adapted(nn.Module):
    """A layer with adapters that are all off: nothing to compute, but each has to be asked."""

    def __init__(self, width: int, count: int, pooled: bool) -> None:
        super().__init__()
        self.base, self.pooled = nn.Linear(width, width), pooled
        self.adapters = nn.ModuleList(Adapter(width) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        x = self.base(x)
        for adapter in self.adapters:
            if adapter.active:
                x = adapter(x)
        return x.amax(0) if self.pooled else x


def adapters() -> Built:
    """Two hundred adapters: torch.compile guards the switch of each in every call."""
    return Adapted(64, 200, pooled=False), (torch.randn(16, 64),)


def pooled_adapters() -> Built:
    """The same with a maximum over the batch, which an empty batch does not have."""
    return Adapted(64, 200, pooled=True), (torch.randn(16, 64),)


class Chain(nn.Module):
    """Pointwise operators with a parameter each."""

    def __init__(self, width: int, ops: int) -> None:
        super().__init__()
        self.factors = nn.ParameterList(torch.rand(width) for _ in range(ops))

    def forward(self, x: Tensor) -> Tensor:
        for factor in self.factors:
            x = torch.sin(x * factor)
        return x


def chain() -> Built:
    """Forty operators on 64 numbers: dispatch and autograd take most of a call."""
    return Chain(16, 20), (torch.randn(4, 16),)


def frozen_chain() -> Built:
    """The same with parameters that require no gradient: nothing is recorded in any mode."""
    net, inputs = chain()
    return net.requires_grad_(False), inputs


class Sorted(nn.Module):
    """Sorts each row."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sort(x, dim=-1).values * 2.0


def sorting() -> Built:
    """A sort, for which the compiler has no code of its own on a CPU."""
    return Sorted(), (torch.randn(256, 1024),)


class Broken(nn.Module):
    """Two products with a graph break between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        torch._dynamo.graph_break()
        y: Tensor = self.second(x)
        return y


def broken() -> Built:
    """A model that is compiled in two pieces."""
    return Broken(128), (torch.randn(16, 128),)


class Counting(nn.Module):
    """Python that computes a constant in every call, then one operator."""

    def forward(self, x: Tensor) -> Tensor:
        total = 0
        for number in range(500):
            total += number % 7
        return x * (total / 1500)


def counting() -> Built:
    """A Python loop, which compiled code replaces by its result."""
    return Counting(), (torch.randn(64, 64),)
