"""Compiled steps train as eager ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.evidence import compiler_counts
from modescope.bench.passes import ceilings
from modescope.bench.records.cases import Case, Variant
from modescope.bench.stats import diagnostics
from modescope.bench.stats.roofline import Ceilings
from tests.helpers import probe_models, trained_models
from tests.helpers.probe_models import silent, smoke
from tests.helpers.trained_models import LEARNERS, built, check_of, examined, subject

pytestmark = pytest.mark.full


def preset(name: str, dtype: str) -> Variant:
    return Variant(replace(probe_models.preset(name), grad="enabled"), dtype)


ASKED = [
    ("small_mlp", "max-autotune", "fp32", "sgd"),
    ("small_mlp", "amp-compile", "fp16", "adamw"),
    ("small_transformer", "compile", "fp32", "sgd"),
    ("small_transformer", "amp-compile", "bf16", "adamw"),
]


@pytest.fixture(scope="module", autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """Nothing from AOTAutograd's cache on disk, as in a cold run, where it is empty.

    Its key in torch 2.11 leaves out autocast's dtype: after bf16, fp16 got the graph of bf16.
    """
    with torch._functorch.config.patch(enable_autograd_cache=False):
        yield
    torch.compiler.reset()


@pytest.mark.parametrize(("name", "mode", "dtype", "optimizer"), ASKED)
def test_compiled_steps_pass_the_training_check(
    name: str, mode: str, dtype: str, optimizer: str
) -> None:
    torch.compiler.reset()
    asked = preset(mode, dtype)
    made = built(subject(LEARNERS[name]), asked, optimizer=optimizer)
    eager = replace(asked, mode=replace(asked.mode, compile="none"))
    of_eager = examined(LEARNERS[name], eager, optimizer=optimizer)
    check = check_of(subject(LEARNERS[name]), optimizer=optimizer)
    before = compiler_counts.read_compiled()
    assert check.limit(of_eager, asked).accepts(check.examine(made, asked))
    assert compiler_counts.read_compiled().since(before).compilations == 0


ROWS, WIDTH, FLOAT = 4, 16, 4  # of the two layers of small_mlp
ACTIVATION = FLOAT * ROWS * WIDTH
RATES = Ceilings(2e11, ((2**10, 3e10),))


def case(**options: Any) -> Case:
    return trained_models.case(trained_models.small_mlp, preset("compile", "fp32"), **options)


@pytest.fixture
def compiler_reset(restored_settings: None) -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("as_in_a_child", "compiler_reset")
def test_every_column_of_a_compiled_training_step(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two layers Inductor saves the same as eager: GELU's input, for GELU's gradient, and
    GELU's output, for that of the second weight. The loss is not compiled and saves the output.
    """
    monkeypatch.setattr(ceilings, "measure", lambda *device_and_dtype: RATES)
    monkeypatch.setattr(diagnostics, "is_contended", lambda *seen: False)
    longer = replace(smoke().budget, rank=1)  # or no ceilings are measured
    plan = replace(smoke(), budget=longer, profile=True, memory=True, results_dir=str(tmp_path))
    result = runner.run(silent, case(), plan)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert (
        found.checks.in_effect,
        found.checks.graphs,
        found.checks.recompiles,
        found.checks.graph_breaks,
    ) == (True, 1, 0, 0)
    assert found.memory.saved_activation_bytes == 2 * ACTIVATION + ACTIVATION
    assert (
        found.work.work_note,
        found.profile.profile_note,
        found.memory.memory_note,
        found.step_parts.parts_note,
    ) == (None,) * 4
    assert found.profile.kernels >= found.code.generated_kernels >= 2, "one forward, one backward"
    assert found.code.extern_calls == 2 + 3, "products: two of forward, and the gradients but one"
    assert found.work.flops == 5 * 2 * ROWS * WIDTH * WIDTH


@pytest.mark.usefixtures("as_in_a_child", "compiler_reset")
def test_a_small_budget_for_activations_keeps_fewer() -> None:
    """With a budget of 0, compiled forward saves nothing; the loss, which is not compiled, does."""
    memory_alone = replace(smoke(), memory=True)
    found = runner.run(silent, case(activation_memory_budget=0.0), memory_alone).findings
    assert found.memory.saved_activation_bytes == ACTIVATION
    assert torch._functorch.config.activation_memory_budget == 0.0
