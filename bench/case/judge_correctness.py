"""Ends a case with wrong results: compares its errors with the accepted limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modescope.bench.case.first_call import Contender
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Case, Plan
from modescope.bench.records.results import Ended, Findings, flagged
from modescope.bench.steps import modes
from modescope.bench.steps.check import Check
from modescope.bench.steps.correctness import output_check
from modescope.bench.steps.model_and_inputs import Subject
from modescope.bench.steps.phases.table import phase_of


@dataclass(frozen=True)
class Judge:
    """The check of a case, applied to its contenders."""

    check: Check
    case: Case
    plan: Plan

    def limit_error(self, subject: Subject, device: Hardware, findings: Findings) -> Findings:
        """Sets the limit from the error of plain eager with the case's dtype and autocast."""
        variant = replace(self.case.variant, mode=self.case.variant.mode.in_eager())
        own, phase = subject.cast(modes.weight_dtype(variant)), phase_of(self.case.options)
        eager = modes.build(own, variant, self.case.model.fullgraph, device, phase)
        eager.settle()
        error, limit = self.check.examine(eager, variant).error, 0.0
        if self.check.eager_is_sane(error, variant.dtype):
            limit = output_check.accepted_error(error, variant.dtype)
        return replace(findings, eager_error=error, error_limit=limit)

    def judge(self, candidate: Contender, findings: Findings) -> Findings:
        """Checks the candidate, before and after timing; the larger error counts.

        Raises Ended where results are wrong, or where eager's error is too large to judge any.
        """
        variant, eager, limit = self.case.variant, findings.eager_error, findings.error_limit
        assert eager is not None
        assert limit is not None
        accepted = max(limit, self.plan.max_error or 0.0)
        worst = self.check.examine(candidate.built, variant, accepted)
        if findings.error is None or not worst.error <= findings.error:  # nan is the larger one
            findings = replace(findings, error=worst.error, error_place=worst.place)
        error, place = findings.error, findings.error_place
        assert error is not None
        if limit == 0 and not eager <= accepted:
            raise Ended("wrong_result", output_check.unjudged(eager, variant.dtype), findings)
        if not error <= accepted:
            reason = output_check.too_large(error, place, eager, variant.dtype, accepted)
            raise Ended("wrong_result", reason, findings)
        state = self.check.examine_state(candidate.built)
        findings = replace(findings, **state.columns)
        if state.reason:
            raise Ended("wrong_result", state.reason, findings)
        return findings

    def judge_baseline(
        self, baseline: Contender, findings: Findings
    ) -> tuple[Contender | None, Findings]:
        """The baseline, or None where its results are wrong."""
        variant = baseline.facts.variant
        error = self.check.examine(baseline.built, variant).error
        findings = replace(findings, baseline_error=error)
        accepted = self.plan.max_error is not None and error <= self.plan.max_error
        if accepted or self.check.eager_is_sane(error, variant.dtype):
            return baseline, findings
        return None, flagged(findings, "baseline_wrong")
