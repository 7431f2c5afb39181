"""Models to be packaged, and what the process that measures a package imports.

Imports nothing that imports torch's compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from modescope.bench.case import runner
from modescope.bench.records.caches import SAVED
from modescope.bench.records.cases import Case, Mode, Model, Variant
from modescope.bench.records.errors import Progress
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Result
from modescope.bench.sweep import isolation
from modescope.bench.sweep.isolation import Task
from tests.helpers.made_up_records import BUDGET, case
from tests.helpers.made_up_records import plan as made_up_plan

WIDTH = 4
AOTI = Variant(Mode("aoti", "inference_mode", compile="aoti"), "fp32")

Built = tuple[nn.Module, tuple[Tensor, ...]]


class Named(nn.Module):
    """Returns a dict, with a None in it, and takes a number and a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, times: int, *, more: dict[str, Tensor]) -> dict[str, Any]:
        return {"y": self.linear(x) * times + more["a"], "nothing": None}


class Branches(nn.Module):
    """Takes a branch that depends on the values of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Steps(nn.Module):
    """Counts its calls in a buffer, which its result does not show."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x + 1


def named() -> tuple[nn.Module, dict[str, Any]]:
    more = {"a": torch.randn(WIDTH)}
    return Named(), {"more": more, "times": 3, "x": torch.randn(2, WIDTH)}


class Stores(nn.Module):
    """Writes its input to a buffer, which a call with the same input leaves as it was."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.kept.copy_(x)
        return self.kept.sum(0)


def stores() -> Built:
    return Stores(), (torch.randn(2, WIDTH),)


def branches() -> Built:
    return Branches(), (torch.randn(2, WIDTH),)


def steps() -> Built:
    return Steps(), (torch.randn(2, WIDTH),)


def packaged(builder: Callable[[], object]) -> Case:
    """A case that packages what `builder`, a function of this file, builds."""
    target = f"{__name__}:{builder.__name__}"
    return case(model=Model(f"custom:{target}", target), shape_json="{}", variant=AOTI)


def measure(progress: Progress, asked: Case, plan: Plan) -> tuple[bool, Result, bool]:
    """Measures in a child process; the result is between whether Dynamo is imported."""
    before = "torch._dynamo" in sys.modules
    result = runner.run(progress, asked, plan)
    return before, result, "torch._dynamo" in sys.modules


def main(folder: Path) -> None:
    """Builds the package of `Named` and measures it, from a forkserver without the compiler.

    Prints whether Dynamo was imported before and after, and what the row says.
    """
    isolation.start(compiler=False)
    asked = packaged(named)
    brief = replace(BUDGET, warmup_max_s=0.02, pilot_rounds=2, max_rounds=2, min_rounds=2)
    asks = {"profile": False, "memory": True, "max_error": None, "compile_cache": "warm"}
    none = {"replicate": 0, "seed": 0, "fills_cache": False, "latency_alone": False}
    plan = replace(made_up_plan(**asks, **none, trace_max_bytes=0), budget=brief)
    variables = {SAVED: str(folder)}
    for function in ("modescope.bench.case.packaging:build", "tests.helpers.packaged:measure"):
        outcome = isolation.call(
            Task(function, tuple), asked, plan, timeout_s=400, variables=variables
        )
        assert outcome.value is not None, outcome.reason
    before, result, after = outcome.value
    print(before, after, result.status, result.reason, result.findings.checks.checked)
