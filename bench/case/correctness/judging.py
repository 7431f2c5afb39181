"""The protocol of judges, and which one a case has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from modescope.bench.case.correctness import exact, messages, randomness
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Case, Plan, Variant
from modescope.bench.records.results import Findings
from modescope.bench.steps.built_step import Built
from modescope.bench.steps.check import Check
from modescope.bench.steps.subject import Subject


class Judge(Protocol):
    """Decides whether the results of a case are correct."""

    @property
    def last_check(self) -> randomness.LastCheck | None:
        """What is left to check when all is measured; it needs nothing of the judge."""

    def columns(self, findings: Findings) -> Findings:
        """`findings` with what is known before the case is examined."""

    def judge(self, built: Built, findings: Findings) -> Findings:
        """Examines the timed step, before and after timing; raises Ended where it is wrong."""

    def baseline_is_right(
        self, built: Built, variant: Variant, findings: Findings
    ) -> tuple[bool, Findings]:
        """Whether the results of the baseline are right, and the columns that say so."""


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


def judge_of(check: Check, subject: Subject, case: Case, plan: Plan, device: Hardware) -> Judge:
    """By what the model does in plain eager, which may run on a copy of `subject`."""
    if check.seen.depends:
        return NoJudge(messages.DEPENDS)
    if check.seen.random:
        return randomness.judge(check, subject, case, plan, device)
    return exact.judge(check, subject, case, plan, device)
