"""Compiles the step of an optimizer, and tells which graphs of the compiler are of optimizers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch.optim import Optimizer

if TYPE_CHECKING:  # or every process that measures would import the compiler
    from torch._dynamo.utils import CompilationMetrics

OPTIM = str(Path(torch.optim.__file__).parent) + "/"


def compile_step(made: Optimizer) -> None:
    """Replaces the step of `made` by what torch.compile makes of it in its first call."""
    vars(made)["step"] = torch.compile(made.step)


def graphs(compilations: Iterable[CompilationMetrics]) -> int:
    """Returns how many of `compilations` made a graph of code in torch.optim."""
    return sum(
        bool(metrics.graph_op_count) and (metrics.co_filename or "").startswith(OPTIM)
        for metrics in compilations
    )
