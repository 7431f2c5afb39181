"""Models that are not a plain module with dense weights, or that change settings of torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.helpers.probe_models import Built

WIDTH = 16


class Tanh(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x)) * self.scale


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(4, WIDTH),)


def plain() -> Built:
    return Tanh(), inputs()


def scripted() -> Built:
    return torch.jit.script(Tanh()), inputs()


def traced() -> Built:
    return torch.jit.trace(Tanh().eval(), inputs()), inputs()


def scripted_part() -> Built:
    return nn.Sequential(torch.jit.script(Tanh()), nn.Linear(WIDTH, 2)), inputs()


def exported() -> Built:
    return torch.export.export(Tanh().eval(), inputs()).module(), inputs()


def compiled() -> Built:
    module = torch.compile(Tanh(), backend="eager")
    assert isinstance(module, nn.Module)
    return module, inputs()


def compiled_in_place() -> Built:
    module = Tanh()
    module.compile(backend="eager")
    return module, inputs()


class Sparse(nn.Module):
    def __init__(self, layout: str) -> None:
        super().__init__()
        dense = torch.randn(WIDTH, WIDTH).triu()
        if layout == "csr":
            self.weight = nn.Parameter(dense.to_sparse_csr(), requires_grad=False)
        else:
            self.register_buffer("weight", dense.to_sparse())

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight @ x.t()).t()


def sparse(layout: str) -> Built:
    return Sparse(layout), inputs()


class SparseOutput(nn.Module):
    """A sparse input and a sparse result."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def sparse_input() -> Built:
    return SparseOutput(), (torch.randn(4, WIDTH).triu().to_sparse(),)
