"""Operator modes around a model that compiles a part of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case.roofline import counting
from modescope.bench.devices.devices import Cpu
from modescope.bench.steps import modes
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.operator_mode import OperatorMode
from modescope.bench.steps.phases.inference import ONE_CALL
from modescope.bench.steps.subject import Inputs, Subject
from tests.helpers.probe_models import WIDTH, variant


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


class Lists(OperatorMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


def compiling() -> nn.Module:
    layers = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(4)], nn.ReLU())
    compiled: Any = torch.compile(layers, backend="eager")
    return nn.Sequential(compiled, nn.ReLU())


def test_dynamo_compiles_no_operator_mode() -> None:
    module, x = compiling().eval(), torch.randn(2, WIDTH)
    module(x)
    compiled = mode_effect.count_compilations()
    with Lists() as seen:
        module(x)
    assert seen.names.count("aten.relu") == 2
    assert compiled() == 0


def test_work_of_a_model_that_compiles_itself_is_counted() -> None:
    subject = Subject(compiling().eval(), Inputs((torch.randn(2, WIDTH),), {}))
    built = modes.build(subject, variant(), True, Cpu(), ONE_CALL)
    built.step()
    counts = counting.count(built)
    assert counts.work_note is None
    assert counts.flops == 4 * 2 * 2 * WIDTH * WIDTH
