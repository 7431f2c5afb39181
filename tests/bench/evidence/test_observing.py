"""What is observed is the timed step, and observing it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from modescope.bench.devices.devices import Cpu
from modescope.bench.evidence import compiler_counts, observing
from modescope.bench.evidence.compiler_counts import Compiled
from modescope.bench.model.building import build
from modescope.bench.model.subject import Built as BuiltStep
from modescope.bench.modes import modes
from modescope.bench.modes.phases import ONE_CALL
from modescope.bench.records.cases import Variant
from tests.helpers.probe_models import (
    Built,
    counts,
    model,
    observed,
    tells,
    variant,
    weightless,
)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def built(asked: Variant, function: Callable[..., Built] = tells) -> BuiltStep:
    torch.manual_seed(0)
    made = build(model(function), {}).cast(modes.weight_dtype(asked))
    return modes.build(made, asked, True, Cpu(), ONE_CALL)


def test_the_timed_step_and_its_own_weights_are_observed() -> None:
    """Not another step built for observing: one that drops its contexts is found."""
    made = built(variant("bf16", grad="no_grad", autocast=True))

    def bare() -> object:
        return made.target(*made.subject.inputs.args)

    seen = observing.observe(replace(made, live=bare, step=bare), variant(), Cpu())
    assert seen == observed("enabled", "none", "float32")
    made.subject.module.double()
    made.subject.inputs.args[0].data = made.subject.inputs.args[0].double()
    assert observing.observe(made, variant(), Cpu()).weight_dtype == "float64"
    assert observing.observe(built(variant(), weightless), variant(), Cpu()).weight_dtype == "none"


@pytest.mark.parametrize("compile_mode", ["none", pytest.param("default", marks=pytest.mark.full)])
def test_observing_changes_nothing_and_causes_no_recompilation(compile_mode: str) -> None:
    made = built(variant(compile=compile_mode), counts)
    made.step()
    before = compiler_counts.read_compiled()
    observing.observe(made, variant(compile=compile_mode), Cpu())
    assert made.subject.module.get_buffer("calls") == 2
    made.step()
    assert compiler_counts.read_compiled().since(before) == Compiled(0, 0, 0, 0)


def test_graph_launches_are_counted_in_one_call() -> None:
    def step() -> None:
        for name in ("cudaGraphLaunch", "cuGraphLaunch", "cudaLaunchKernel"):
            with torch.profiler.record_function(name):
                torch.ones(1)

    compiled, graphed = (variant(compile=name).mode for name in ("default", "reduce-overhead"))
    gpu = Cpu()
    gpu.type = "cuda"
    assert observing.graph_launches(step, graphed, gpu) == 2
    assert observing.graph_launches(step, compiled, gpu) is None, "none is expected"
    assert observing.graph_launches(step, graphed, Cpu()) == 0, "a CPU launches none"
