"""Modules of other kinds are measured in eager and checked; compiling them ends as torch says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from modescope.bench.case import runner
from modescope.bench.records.cases import Model, Variant
from modescope.bench.records.ids import canonical_json
from modescope.bench.records.results import Result
from tests.helpers import unusual_models
from tests.helpers.probe_models import Built, case, silent, smoke, variant
from tests.helpers.unusual_models import (
    compiled,
    compiled_in_place,
    exported,
    scripted,
    scripted_part,
    sparse,
    sparse_input,
    traced,
)

pytestmark = [
    pytest.mark.usefixtures("as_in_a_child", "restored_settings"),
    pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Sparse"),
]

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
