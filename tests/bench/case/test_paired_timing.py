"""All clocks of a case and its baseline: which calls they time, and what is prepared for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import dispatch, paired_timing, runner
from modescope.bench.case.dispatch import EmptyCall
from modescope.bench.records.cases import Variant
from modescope.bench.records.results import Findings
from modescope.bench.timing import clock_rounds, paired
from tests.helpers.probe_models import case, linear, model, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

EAGER = variant()
NO_GRAD = variant(grad="no_grad")
COMPILE = variant(grad="inference_mode", compile="default")
AMP = variant("bf16", autocast=True)


@pytest.fixture(autouse=True)
def _compiled_anew() -> Iterator[None]:
    yield
    torch.compiler.reset()


def measured(asked: Variant, baseline: Variant | None = EAGER) -> Findings:
    result = runner.run(silent, case(model(linear), asked, baseline), smoke())
    assert (result.status, result.reason) == ("ok", None)
    return result.findings


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Variant]:
    """The variants for which a call on an empty batch is built."""
    variants: list[Variant] = []
    prepare = dispatch.prepare

    def watched(subject: Any, asked: Variant, *others: Any) -> EmptyCall:
        variants.append(asked)
        return prepare(subject, asked, *others)

    monkeypatch.setattr(dispatch, "prepare", watched)
    return variants


def test_every_clock_has_a_value_in_each_round(prepared: list[Variant]) -> None:
    found = measured(NO_GRAD)
    columns = (
        found.clocks_latency_rounds_s,
        found.clocks_pace_rounds_s,
        found.host_rounds_s,
        found.pipelined_rounds_s,
        found.dispatch_rounds_s,
        found.baseline_dispatch_rounds_s,
    )
    for each in columns:
        assert len(each) == smoke().budget.clock_rounds
        assert min(each) > 0
    assert prepared == [NO_GRAD, EAGER]
    assert found.clocks_s > 0


def test_a_clear_loss_has_clocks_for_as_many_rounds_as_a_pilot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paired, "SLOW", math.inf)
    budget = replace(smoke().budget, pilot_rounds=12, min_rounds=12, clock_rounds=20)
    budget = replace(budget, timed_max_s=5.0, slow_half_width=0.05)
    found = runner.run(
        silent, case(model(linear), NO_GRAD), replace(smoke(), budget=budget)
    ).findings
    assert found.stopped_early
    assert len(found.host_rounds_s or ()) == 12


def test_without_a_baseline_only_the_case_has_dispatch(prepared: list[Variant]) -> None:
    found = measured(NO_GRAD, baseline=None)
    assert found.dispatch_rounds_s is not None
    assert found.baseline_dispatch_rounds_s is None
    assert prepared == [NO_GRAD]


def test_a_baseline_without_dispatch_leaves_the_case_its_own() -> None:
    found = measured(NO_GRAD, AMP)
    assert found.dispatch_rounds_s is not None
    assert found.baseline_dispatch_rounds_s is None
    assert found.dispatch_note is None


def test_a_case_without_dispatch_prepares_none_for_its_baseline(prepared: list[Variant]) -> None:
    found = measured(AMP)
    assert found.dispatch_rounds_s is None
    assert found.baseline_dispatch_rounds_s is None
    assert found.dispatch_note == "autocast casts every weight on an empty batch too"
    assert found.host_rounds_s is not None
    assert prepared == [AMP]


@pytest.mark.full
def test_a_compiled_mode_is_compiled_for_the_empty_batch_after_its_paired_rounds() -> None:
    found = measured(COMPILE)
    assert found.recompiles == 0
    assert found.dispatch_note == dispatch.NO_LAUNCHES
    assert found.dispatch_rounds_s is not None


def test_clocks_that_fail_leave_the_row_its_speedup(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> Any:
        raise torch.OutOfMemoryError("no room for a redraw")

    monkeypatch.setattr(clock_rounds, "read", fails)
    found = measured(NO_GRAD)
    reason = "the clocks pass failed (OutOfMemoryError: no room for a redraw)"
    assert (found.device_note, found.dispatch_note) == (reason, reason)
    assert found.clocks_s is None
    assert found.latency_rounds_s
    assert found.baseline_latency_rounds_s
    assert found.in_effect is True


def test_expected_times_are_those_of_the_paired_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    read = clock_rounds.read

    def watched(*arguments: Any) -> Any:
        asked.append(arguments)
        return read(*arguments)

    monkeypatch.setattr(clock_rounds, "read", watched)
    monkeypatch.setattr(paired_timing, "median", max)
    found = measured(NO_GRAD)
    ((steps, _, budget, _, per_call_s, _, others),) = asked
    expected_s = [max(found.latency_rounds_s), max(found.baseline_latency_rounds_s)]
    assert per_call_s == expected_s
    assert len(steps) == 2
    assert budget == smoke().budget
    assert [each.name for each in others] == ["dispatch", "clocks_pace"]
