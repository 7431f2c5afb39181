"""Modules of other kinds, and models that change torch: measured in eager, checked and named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from modescope.bench.case import runner
from modescope.bench.records.cases import Model, Variant, canonical_json
from modescope.bench.records.results import Result
from tests.helpers import unusual_models
from tests.helpers.probe_models import Built, case, silent, smoke, variant
from tests.helpers.unusual_models import (
    Notes,
    compiled,
    compiled_in_place,
    exported,
    part_compiled,
    plain,
    scripted,
    sets_threads,
    sets_when_built,
    sparse,
    sparse_input,
)

pytestmark = [
    pytest.mark.usefixtures("as_in_a_child", "restored_settings"),
    pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Sparse"),
]

EAGER = variant()
INFERENCE = variant(grad="inference_mode")
COMPILE = variant(grad="inference_mode", compile="default")


def run(build: Callable[..., Built], asked: Variant = INFERENCE, **arguments: Any) -> Result:
    torch.compiler.reset()  # or what another test compiled would serve
    target = f"{unusual_models.__name__}:{build.__name__}"
    model = Model(f"custom:{target}", target, canonical_json(arguments), fullgraph=True)
    return runner.run(silent, case(model, asked), smoke())


@pytest.mark.parametrize(
    ("build", "arguments", "own_graphs"),
    [
        (plain, {}, False),
        (scripted, {}, False),
        (exported, {}, False),
        (compiled, {}, True),
        (part_compiled, {}, True),
        (compiled_in_place, {}, True),
        (sparse, {"layout": "csr"}, False),
        (sparse, {"layout": "coo"}, False),
        (sparse_input, {}, False),  # its sparse result is compared element by element
    ],
)
def test_every_kind_of_module_is_measured_and_checked(
    build: Callable[..., Built], arguments: dict[str, Any], own_graphs: bool
) -> None:
    result = run(build, **arguments)
    found = result.findings
    assert (result.status, found.checks.checked) == ("ok", "exact"), result.reason
    assert (found.checks.in_effect, found.checks.seen_grad) == (True, "inference_mode")
    assert found.checks.error == 0 if build is sparse_input else 0 < found.checks.error < 1e-6
    assert bool(found.models_own.own_graphs) is own_graphs
    assert (found.models_own.settings_put_back, found.models_own.settings_in_calls) == (None, None)


@pytest.mark.skipif(torch.__version__ < "2.12", reason="an older torch does not refuse it")
def test_a_scripted_module_is_not_compiled_as_torch_says() -> None:
    with pytest.raises(RuntimeError, match=r"does not support compiling torch\.jit\.script"):
        run(scripted, COMPILE)


def test_settings_that_a_builder_changes_are_put_back() -> None:
    found = run(sets_when_built, EAGER).findings
    assert Notes.seen == (1, torch.float32, True)
    assert json.loads(found.models_own.settings_put_back or "") == [
        "threads 1 → 2",
        "default dtype torch.float32 → torch.float64",
        "grad enabled True → False",
    ]
    assert (found.models_own.settings_in_calls, found.checks.seen_grad) == (None, "enabled")


@pytest.mark.parametrize("always", [True, False])
def test_settings_that_forward_changes_are_put_back_or_named(always: bool) -> None:
    found = run(sets_threads, always=always).findings
    columns = found.models_own.settings_in_calls, found.models_own.settings_put_back
    named, other = columns if always else columns[::-1]
    assert (json.loads(named or ""), other) == (["threads 1 → 2"], None)
    assert ("settings_changed" in found.flags) is always
