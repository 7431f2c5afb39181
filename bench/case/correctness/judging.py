"""Which judge a case has, by what plain calls showed of the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modescope.bench.case.correctness import exact, messages, randomness
from modescope.bench.case.correctness.exact import ExactJudge
from modescope.bench.case.correctness.randomness import RandomJudge
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Case, Plan, Variant
from modescope.bench.records.results import Findings
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.check import Check
from modescope.bench.steps.subject import Subject


@dataclass(frozen=True)
class NoJudge:
    """Accepts all results: those of different calls cannot be compared."""

    reason: str
    last_check = None

    def columns(self, findings: Findings) -> Findings:
        """Says that nothing is checked, and why."""
        return replace(findings, checked="not", checked_note=self.reason)

    def judge(self, built: Built, findings: Findings) -> Findings:
        """Accepts the case."""
        return findings

    def baseline_is_right(
        self, built: Built, variant: Variant, findings: Findings
    ) -> tuple[bool, Findings]:
        """Accepts the baseline."""
        return True, findings


Judge = ExactJudge | RandomJudge | NoJudge
"""Decides whether the results of a case are correct."""


def judge_of(check: Check, subject: Subject, case: Case, plan: Plan, device: Hardware) -> Judge:
    """By what the model does in plain eager, which may run on a copy of `subject`."""
    if check.seen.depends:
        return NoJudge(messages.DEPENDS)
    if check.seen.random:
        return randomness.judge(check, subject, case, plan, device)
    return exact.judge(check, subject, case, plan, device)
