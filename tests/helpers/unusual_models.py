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
        self.scale: Tensor
        self.register_buffer("scale", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x)) * self.scale


def inputs() -> tuple[Tensor, ...]:
    return (torch.randn(4, WIDTH),)


def plain() -> Built:
    return Tanh(), inputs()


def scripted() -> Built:
    return torch.jit.script(Tanh()), inputs()


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
    """A model that returns a sparse tensor for a sparse input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def sparse_input() -> Built:
    return SparseOutput(), (torch.randn(4, WIDTH).triu().to_sparse(),)


class SetsThreads(nn.Module):
    """Sets two threads in every call, or only in the first."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.always, self.called = always, False

    def forward(self, x: Tensor) -> Tensor:
        if self.always or not self.called:
            torch.set_num_threads(2)
            self.called = True
        return torch.as_tensor(self.linear(x))


def sets_threads(always: bool) -> Built:
    return SetsThreads(always), inputs()


class MultipliesInFp32(nn.Module):
    """Switches tf32 off in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        torch.set_float32_matmul_precision("highest")
        return torch.as_tensor(self.linear(x))


def multiplies_in_fp32() -> Built:
    return MultipliesInFp32(), inputs()


class Notes(Tanh):
    """Remembers the settings that its last call saw."""

    seen: tuple[object, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        Notes.seen = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
        return super().forward(x)


def sets_when_built() -> Built:
    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    built = Notes(), inputs()
    torch.set_default_dtype(torch.float64)
    return built


@torch.compile(backend="eager")
def _compiled_by_author(x: Tensor) -> Tensor:
    return torch.tanh(x)


class PartCompiled(Tanh):
    def forward(self, x: Tensor) -> Tensor:
        return _compiled_by_author(self.linear(x))


def part_compiled() -> Built:
    return PartCompiled(), inputs()


class Root(nn.Module):
    def __init__(self, size: float) -> None:
        super().__init__()
        self.power = nn.Parameter(torch.rand(4, WIDTH) * size)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sqrt(self.power)


def root(size: float) -> Built:
    return Root(size), inputs()
