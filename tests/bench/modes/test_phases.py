"""A new phase: the code that measures a case uses the interface, and no phase by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from modescope.bench.case import runner
from modescope.bench.devices.devices import Step
from modescope.bench.model.subject import Inputs
from modescope.bench.modes.phase import Phase
from modescope.bench.modes.phases import PHASES
from modescope.bench.records.cases import PhaseOptions
from modescope.bench.records.results import work_of
from modescope.bench.refusals import OF_PHASE, refusal
from modescope.bench.settings import PHASE_SETTINGS, PhaseSettings
from tests.helpers.made_up_records import CPU
from tests.helpers.probe_models import case, model, scaled, silent, smoke, variant

pytestmark = pytest.mark.usefixtures("restored_settings")

NO_DISPATCH = "several calls are several dispatches"
TOO_OFTEN = "{options.calls} calls take too long on {device}"


@dataclass(frozen=True)
class Repeat(PhaseOptions):
    phase: ClassVar[str] = "repeat"
    key: ClassVar[str] = "repeat"

    calls: int = 2


@dataclass(frozen=True)
class RepeatPhase(Phase):
    options: Repeat

    no_dispatch = NO_DISPATCH

    def forward(self, call: Step, inputs: Inputs) -> Step:
        def repeated() -> object:
            for _ in range(self.options.calls - 1):
                call()
            return call()

        return repeated


@pytest.mark.usefixtures("as_in_a_child")
def test_a_new_phase_is_measured_and_checked_and_has_case_ids_and_refusals_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = ((lambda variant, options, device: options.calls > 9, TOO_OFTEN),)
    monkeypatch.setitem(OF_PHASE, "repeat", (rules, ()))
    monkeypatch.setitem(PHASES, "repeat", RepeatPhase)
    monkeypatch.setitem(PHASE_SETTINGS, "repeat", PhaseSettings(Repeat, natural_grad="no_grad"))
    once = case(model(scaled), variant(grad="no_grad"))
    twice, *others = (replace(once, options=Repeat(calls=calls)) for calls in (2, 3, 10))
    assert len({each.case_id for each in (once, twice, *others)}) == 4
    assert work_of(twice, smoke()).phase == "repeat"
    assert refusal(twice, CPU) is None
    assert refusal(others[-1], CPU) == "10 calls take too long on Some CPU"

    result = runner.run(silent, twice, smoke())
    assert (result.status, result.reason) == ("ok", None)
    assert result.findings.clocks.dispatch_note == NO_DISPATCH
    assert result.findings.checks.error <= result.findings.checks.error_limit
    assert result.findings.step_parts.forward_rounds_s is None
    monkeypatch.setattr(RepeatPhase, "forward", lambda self, call, inputs: lambda: 2 * call())
    assert runner.run(silent, twice, smoke()).status == "wrong_result"
