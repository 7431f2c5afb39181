"""Every planted fault is found in five of five seeds, and no correct step fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from modescope.bench.records.results import Result
from tests.helpers.planted import (
    DROPPING,
    EDGE,
    FAMILIES,
    FAULTS,
    Family,
    Fault,
    case_of,
    verdict,
    wrong_when_compiled,
)

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 5))]

OF_RANDOMNESS = {"dropout that does not drop", "dropout with constant masks"}

Judged = Callable[..., Result]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Judged:
    """How the checks of a family end in a case with these options, with a fault or none."""

    def judge(of: Family, fault: Fault | None = None, seed: int = 0, **options: Any) -> Result:
        with monkeypatch.context() as patch:
            return verdict(of, case_of(of, **options), seed, patch, fault)

    return judge


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_is_found(family: str, fault: str, seed: int, judged: Judged) -> None:
    result = judged(FAMILIES[family], FAULTS[fault], seed)
    assert result.status == "wrong_result"
    assert ("each call has the same results" in result.reason) == (fault in OF_RANDOMNESS)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_correct_step_passes(family: str, seed: int, judged: Judged) -> None:
    result = judged(FAMILIES[family], seed=seed)
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.checked == "without_randomness"


@pytest.mark.parametrize("fault", ["forward", "stale input"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_is_found_in_inference(family: str, fault: str, judged: Judged) -> None:
    right = judged(FAMILIES[family], phase="inference")
    assert (right.status, right.findings.checked) == ("ok", "exact")
    assert judged(FAMILIES[family], FAULTS[fault], phase="inference").status == "wrong_result"


def test_a_relu_that_rounding_switches_off_is_no_fault(judged: Judged) -> None:
    result = judged(EDGE, lr=1e-9)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.eager_error == found.error > 5e-3
    assert found.checked == "exact"
    assert "rounding alone" in found.checked_note


def test_a_gradient_off_by_two_percent_is_told_from_such_a_relu(judged: Judged) -> None:
    result = judged(EDGE, FAULTS["backward"], lr=1e-9)
    assert result.status == "wrong_result"
    assert result.reason.startswith("the scale of the gradient of out.weight")
    found = result.findings
    assert found.error < found.error_limit
    assert found.scale_error == pytest.approx(0.02, rel=0.01)
    assert found.scale_error > found.scale_error_limit


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(None, "ok", marks=pytest.mark.full),
        (wrong_when_compiled, "wrong_result"),
    ],
)
def test_a_forward_that_is_wrong_only_when_compiled_is_found(
    fault: Fault | None, status: str, judged: Judged
) -> None:
    torch.compiler.reset()
    result = judged(DROPPING, fault, compile_mode="default")
    assert result.status == status, result.reason
    if fault is None:
        assert result.findings.checked == "without_randomness"
