"""All clocks of a case and its baseline: which calls they time, and what is prepared for them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from modescope.bench.case import dispatch, runner
from modescope.bench.records.cases import Variant
from modescope.bench.records.results import Findings
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.timing import comparison, paired
from modescope.bench.timing.comparison import WarmUp
from tests.helpers.probe_models import case, linear, model, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")

EAGER = variant()
NO_GRAD = variant(grad="no_grad")
AMP = variant("bf16", autocast=True)


def measured(asked: Variant, baseline: Variant | None = EAGER) -> Findings:
    result = runner.run(silent, case(model(linear), asked, baseline), smoke())
    assert (result.status, result.reason) == ("ok", None)
    return result.findings


def test_warm_up_without_end_is_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    for steady in (True, False):
        warm = WarmUp(0.25, steady, (1e-5, 1e-5))
        monkeypatch.setattr(comparison, "warm_up", lambda *others, warm=warm: warm)
        found = measured(NO_GRAD)
        assert found.warmup_s == 0.25
        assert ("no_steady_state" in found.flags) is not steady


def test_a_compilation_while_timing_fails_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """As counted; that compiling is counted is a test of comparisons."""
    monkeypatch.setattr(mode_effect, "count_compilations", lambda: lambda: 2)
    result = runner.run(silent, case(model(linear), NO_GRAD, EAGER), smoke())
    assert (result.status, result.findings.recompiles) == ("failed", 2)
    assert result.findings.latency_rounds_s


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


def test_the_case_has_dispatch_where_its_baseline_has_none() -> None:
    found = measured(NO_GRAD, AMP)
    assert found.dispatch_rounds_s is not None
    assert (found.baseline_dispatch_rounds_s, found.dispatch_note) == (None, None)


def test_a_case_without_dispatch_prepares_none_for_its_baseline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[Variant] = []
    prepare = dispatch.prepare

    def watched(subject: Any, asked: Variant, *others: Any) -> Any:
        prepared.append(asked)
        return prepare(subject, asked, *others)

    monkeypatch.setattr(dispatch, "prepare", watched)
    found = measured(AMP)
    assert (found.dispatch_rounds_s, found.baseline_dispatch_rounds_s) == (None, None)
    assert "autocast" in (found.dispatch_note or "")
    assert found.host_rounds_s is not None
    assert prepared == [AMP]
