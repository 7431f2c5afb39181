"""Modules of other kinds, and models that change torch: measured in eager, checked and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from modescope.bench.case import runner
from modescope.bench.case.roofline import counting
from modescope.bench.devices.devices import Cpu
from modescope.bench.records.cases import Model, Variant, canonical_json
from modescope.bench.records.results import Result
from modescope.bench.steps import modes
from modescope.bench.steps.phases import ONE_CALL
from modescope.bench.steps.subject import Inputs, Subject
from tests.helpers import unusual_models
from tests.helpers.probe_models import Built, case, silent, smoke, variant
from tests.helpers.unusual_models import (
    WIDTH,
    Notes,
    compiled,
    compiled_in_place,
    exported,
    part_compiled,
    plain,
    root,
    scripted,
    scripted_part,
    sets_threads,
    sets_when_built,
    sparse,
    sparse_input,
    traced,
)

pytestmark = [
    pytest.mark.usefixtures("as_in_a_child", "restored_settings"),
    pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Sparse"),
]

EAGER_VARIANT = variant()
INFERENCE = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")


def run(build: Callable[..., Built], asked: Variant, **arguments: Any) -> Result:
    target = f"{unusual_models.__name__}:{build.__name__}"
    model = Model(f"custom:{target}", target, canonical_json(arguments), fullgraph=True)
    return runner.run(silent, case(model, asked), smoke())


@pytest.mark.parametrize(
    "build", [scripted, traced, scripted_part, exported, compiled, compiled_in_place]
)
def test_modules_that_torch_translated_are_measured_and_checked(
    build: Callable[..., Built],
) -> None:
    result = run(build, INFERENCE)
    assert (result.status, result.findings.checked) == ("ok", "exact"), result.reason
    assert result.findings.in_effect
    assert result.findings.seen_grad == "inference_mode"


@pytest.mark.skipif(torch.__version__ < "2.12", reason="an older torch does not refuse it")
@pytest.mark.parametrize("build", [scripted, traced])
def test_a_scripted_module_is_not_compiled_as_torch_says(build: Callable[..., Built]) -> None:
    with pytest.raises(RuntimeError, match=r"does not support compiling torch\.jit\.script"):
        run(build, COMPILE)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_a_sparse_weight_is_measured_and_checked(layout: str) -> None:
    result = run(sparse, INFERENCE, layout=layout)
    assert (result.status, result.findings.checked) == ("ok", "exact"), result.reason
    assert result.findings.error is not None
    assert 0 < result.findings.error < 1e-6


def test_a_sparse_result_is_compared_element_by_element() -> None:
    result = run(sparse_input, INFERENCE)
    assert (result.status, result.findings.checked) == ("ok", "exact"), result.reason
    assert result.findings.error == 0


def test_settings_that_a_builder_changes_are_put_back() -> None:
    findings = run(sets_when_built, EAGER_VARIANT).findings
    assert Notes.seen == (1, torch.float32, True)
    assert json.loads(findings.settings_put_back or "") == [
        "threads 1 → 2",
        "default dtype torch.float32 → torch.float64",
        "grad enabled True → False",
    ]
    assert findings.settings_in_calls is None
    assert findings.seen_grad == "enabled"


@pytest.mark.parametrize("always", [True, False])
def test_settings_that_forward_changes_are_put_back_or_named(always: bool) -> None:
    findings = run(sets_threads, INFERENCE, always=always).findings
    column = findings.settings_in_calls if always else findings.settings_put_back
    other = findings.settings_put_back if always else findings.settings_in_calls
    assert (json.loads(column or ""), other) == (["threads 1 → 2"], None)
    assert ("settings_changed" in findings.flags) is always


def test_a_plain_model_changes_nothing() -> None:
    findings = run(plain, INFERENCE).findings
    own = findings.settings_put_back, findings.settings_in_calls, findings.own_graphs
    assert own == (None, None, None)


@pytest.mark.parametrize(("build", "graphs"), [(part_compiled, True), (compiled_in_place, False)])
def test_code_that_the_model_compiles_itself_is_counted(
    build: Callable[..., Built], graphs: bool
) -> None:
    """`module.compile()` does not survive a copy, so eager is eager there."""
    assert bool(run(build, INFERENCE).findings.own_graphs) is graphs


@pytest.mark.parametrize(
    ("size", "shares"), [(1e-39, {"power": 1.0}), (1e-37, {"power": pytest.approx(0.1, abs=0.1)})]
)
def test_subnormal_weights_are_found(size: float, shares: dict[str, Any]) -> None:
    torch.manual_seed(0)
    subject = Subject(*_inputs_of(root(size)))
    built = modes.build(subject, EAGER_VARIANT, True, Cpu(), ONE_CALL)
    assert json.loads(counting.count(built).subnormal or "{}") == shares


def test_subnormal_results_and_inputs_are_found() -> None:
    module = nn.Linear(WIDTH, WIDTH)
    nn.init.constant_(module.weight, 1e-30)
    nn.init.zeros_(module.bias)
    subject = Subject(module, Inputs((torch.full((2, WIDTH), 1e-10),), {}))
    built = modes.build(subject, EAGER_VARIANT, True, Cpu(), ONE_CALL)
    assert json.loads(counting.count(built).subnormal or "{}") == {"results of aten.addmm": 1.0}


def _inputs_of(built: Built) -> tuple[nn.Module, Inputs]:
    return built[0], Inputs(built[1], {})
