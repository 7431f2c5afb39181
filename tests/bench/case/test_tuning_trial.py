"""Trials of a mode that autotunes, on a CPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import fresh_cache

from modescope.bench.case.tuning_trial import nothing_to_tune
from modescope.bench.records.cases import Training
from tests.helpers import probe_models
from tests.helpers.probe_models import Built, case, model, preset, silent, smoke, variant

pytestmark = pytest.mark.full

TUNED = preset("max-autotune-no-cudagraphs")


@pytest.fixture(autouse=True)
def _compiled_anew(restored_settings: None) -> Iterator[None]:
    with fresh_cache():
        yield
    torch.compiler.reset()


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Commands that compile C++."""
    started: list[Any] = []

    class Watched(subprocess.Popen[Any]):
        def __init__(self, command: Any, *arguments: Any, **options: Any) -> None:
            started.extend([command] if ".cpp" in str(command) else [])
            super().__init__(command, *arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    return started


@pytest.mark.parametrize("grad", ["enabled", "inference_mode"])
@pytest.mark.parametrize("build", [probe_models.linear_without_bias, probe_models.broken])
def test_nothing_is_compiled_to_see_that_there_is_no_choice(
    build: Callable[..., Built], grad: str, compilers: list[Any]
) -> None:
    asked = case(model(build, fullgraph=False), variant(compile=TUNED.compile, grad=grad))
    assert nothing_to_tune(silent, asked, smoke())
    assert compilers == []


def test_a_choice_in_a_later_graph_is_seen() -> None:
    built = model(probe_models.product_after_a_break, fullgraph=False)
    asked = case(built, variant(compile=TUNED.compile, grad="no_grad"))
    assert not nothing_to_tune(silent, asked, smoke())


def test_where_no_graph_is_compiled_nothing_is_known() -> None:
    asked = case(model(probe_models.skipped, fullgraph=False), variant(compile=TUNED.compile))
    assert not nothing_to_tune(silent, asked, smoke())


def test_forward_and_backward_of_a_training_step_are_lowered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_backward: list[bool] = []
    codegen_begins = GraphLowering.finalize

    def finalize(graph: GraphLowering) -> Any:
        of_backward.append(graph.is_backward)
        return codegen_begins(graph)

    monkeypatch.setattr(GraphLowering, "finalize", finalize)
    asked = case(model(probe_models.linear_without_bias), variant(compile=TUNED.compile))
    assert nothing_to_tune(silent, replace(asked, options=Training()), smoke())
    assert of_backward == [False, True]
