"""Every planted fault is found in five of five seeds, and no correct step fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from modescope.bench.model.subject import Built
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
@pytest.mark.parametrize("seed", range(5))
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
    assert result.findings.checks.checked == "without_randomness"


@pytest.mark.parametrize("fault", ["forward", "stale input"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fault_is_found_in_inference(family: str, fault: str, judged: Judged) -> None:
    right = judged(FAMILIES[family], phase="inference")
    assert (right.status, right.findings.checks.checked) == ("ok", "exact")
    assert judged(FAMILIES[family], FAULTS[fault], phase="inference").status == "wrong_result"


def test_a_relu_that_rounding_switches_off_is_no_fault(judged: Judged) -> None:
    result = judged(EDGE, lr=1e-9)
    assert (result.status, result.reason) == ("ok", None)
    found = result.findings
    assert found.checks.eager_error == found.checks.error > 5e-3
    assert found.checks.checked == "exact"
    assert "rounding alone" in found.checks.checked_note


def test_a_gradient_off_by_two_percent_is_told_from_such_a_relu(judged: Judged) -> None:
    result = judged(EDGE, FAULTS["backward"], lr=1e-9)
    assert result.status == "wrong_result"
    assert result.reason.startswith("the scale of the gradient of out.weight")
    found = result.findings
    assert found.checks.error < found.checks.error_limit
    assert found.checks.scale_error == pytest.approx(0.02, rel=0.01)
    assert found.checks.scale_error > found.checks.scale_error_limit


@pytest.mark.full
@pytest.mark.parametrize(
    ("fault", "status"),
    [(None, "ok"), (wrong_when_compiled, "wrong_result")],
)
def test_a_forward_that_is_wrong_only_when_compiled_is_found(
    fault: Fault | None, status: str, judged: Judged
) -> None:
    torch.compiler.reset()
    result = judged(DROPPING, fault, compile_mode="default")
    assert result.status == status, result.reason
    if fault is None:
        assert result.findings.checks.checked == "without_randomness"


# The KV cache of a decoding step


def decoder(batch: int) -> Family:
    sizes = {"batch": batch, "seq": 64, "width": 32, "heads": 4, "depth": 2, "vocab": 100}
    return Family("modescope.models.decoder:decode", "", "", json.dumps(sizes))


def caches(built: Built) -> list[Tensor]:
    named = built.subject.module.named_buffers()
    return [each for name, each in named if name.endswith((".keys", ".values"))]


def _around(built: Built, before: Callable[[], None], after: Callable[[], None]) -> Built:
    def step() -> object:
        before()
        outcome = built.step()
        after()
        return outcome

    return replace(built, step=step)


def _not_updated(built: Built, of: Family) -> Built:
    """The output is right, but the entry is lost for later calls."""
    kept: list[Tensor] = []

    def restore() -> None:
        for each, value in zip(caches(built), kept, strict=True):
            each.copy_(value)

    def keep() -> None:
        kept[:] = [each.clone() for each in caches(built)]

    return _around(built, keep, restore)


def _one_position_off(built: Built, of: Family) -> Built:
    """As a position that is increased after the step instead of before it."""
    input_pos = built.subject.inputs.tensors()[1]

    def add(number: int) -> None:
        input_pos.add_(number)

    return _around(built, lambda: add(-1), lambda: add(1))


def _shifted(built: Built, of: Family) -> Built:
    """All entries of earlier calls are one place further, as if one call too many had been made."""

    def shift() -> None:
        for each in caches(built):
            each.copy_(each.roll(1, 2))

    return _around(built, shift, lambda: None)


def _entry_not_read(built: Built, of: Family) -> Built:
    """Attends to the cache as it was before this call; the entry is written all the same."""
    built.subject.module.get_buffer("places").add_(1)
    return built


CACHE_FAULTS: dict[str, Fault] = {
    "not updated": _not_updated,
    "one position off": _one_position_off,
    "shifted": _shifted,
    "entry not read": _entry_not_read,
    "stale input": FAULTS["stale input"],
}


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.full), 3])
@pytest.mark.parametrize("fault", CACHE_FAULTS)
def test_a_fault_in_a_cache_is_found(fault: str, batch: int, judged: Judged) -> None:
    for seed in range(3):
        result = judged(decoder(batch), CACHE_FAULTS[fault], seed, phase="inference")
        assert result.status == "wrong_result"
        if fault == "not updated":
            assert "against float64 in buffer blocks." in result.reason


@pytest.mark.parametrize("batch", [1, 3])
def test_a_correct_step_with_a_cache_passes(batch: int, judged: Judged) -> None:
    for seed in range(3):
        result = judged(decoder(batch), seed=seed, phase="inference")
        assert (result.status, result.findings.checks.checked) == ("ok", "exact"), result.reason
