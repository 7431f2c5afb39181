"""Every fault planted in the KV cache of a decoding step is found, and no correct step fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from torch import Tensor

from modescope.bench.records.results import Result
from modescope.bench.steps.subject import Built
from tests.helpers.planted import FAULTS, Family, Fault, case_of, verdict

pytestmark = pytest.mark.usefixtures("as_in_a_child", "one_thread", "restored_settings")


def family(batch: int) -> Family:
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


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """How the checks of a decoding step end, with a fault or none."""

    def judge(batch: int, fault: Fault | None, seed: int) -> Result:
        of = family(batch)
        with monkeypatch.context() as patch:
            return verdict(of, case_of(of, phase="inference"), seed, patch, fault)

    return judge


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.full), 3])
@pytest.mark.parametrize("fault", CACHE_FAULTS)
def test_a_fault_is_found(fault: str, batch: int, judged: Callable[..., Result]) -> None:
    for seed in range(3):
        result = judged(batch, CACHE_FAULTS[fault], seed)
        assert result.status == "wrong_result"
        if fault == "not updated":
            assert "against float64 in buffer blocks." in result.reason


@pytest.mark.parametrize("batch", [1, 3])
def test_a_correct_step_passes(batch: int, judged: Callable[..., Result]) -> None:
    for seed in range(3):
        result = judged(batch, None, seed)
        assert (result.status, result.findings.checked) == ("ok", "exact"), result.reason
