"""Judges the results of a deterministic model by comparing them with the results of a reference."""

from __future__ import annotations

import math
import traceback
from dataclasses import dataclass, replace

from modescope.bench.checking.checks import CHAOS, Check, Deviation, Limit, RoundingCheck, Scale
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.devices import Hardware
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import QUANTIZE, Case, Mode, Variant
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings
from modescope.bench.records.tolerances import EAGER_LIMIT, eager_is_sane

GUIDE = "docs/how-to-read-a-report.md#a-wrong-result"

BY_ROUNDING = (
    "error_limit is what rounding alone can do to the results of this model, seen in perturbed "
    "float64 runs"
)

EXPLAINED = (
    "differences explained by rounding, as float64 perturbed by rounding at {dtype} does the same: "
    "{places}"
)

NOTHING_COMPARED = "forward returned nothing to compare: {}"

REFERENCE = {"float64": "float64", "fp32": "eager in fp32", "own": "plain eager"}
"""What results are compared with, by the column `checked_against`."""

NOTHING = Limit(0.0, 0.0)

UNJUDGED = (
    "even eager at {dtype} is off ({error} against float64), so no mode can be judged at this "
    f"dtype; use a wider dtype{{accept}} ({GUIDE})"
)

CHAOTIC = (
    "rounding at {dtype} alone can change the results of this model by {error}, so no error can be "
    "told from it; a larger batch or a wider dtype helps"
)

MOST_ADVISED = 0.1
"""The largest error that a reason advises to accept. Beyond it a result is rather another one."""


def _accept(error: float) -> str:
    if not error <= MOST_ADVISED:
        return ""
    step: float = 10.0 ** (math.floor(math.log10(error)) - 1)
    rounded_up = math.ceil(error / step) * step  # to two digits
    return f", or accept the error with max_error={rounded_up:.2g}"


def _describe_error(found: Deviation) -> str:
    if found.place is None and math.isinf(found.error):
        return "results of other sizes or in other places"
    return f"relative error {found.error:.2g}"


def is_chaotic(rounding: Limit | None) -> bool:
    """Returns whether rounding may cause errors so large (above CHAOS) that it could explain any.

    `rounding`: the largest errors that rounding causes in a right step; None: unknown, so False.
    """
    return rounding is not None and not CHAOS.covers(rounding)


@dataclass
class ExactJudge:
    """Compares the results of a case and of its baseline with the reference results in `check`.

    The reference is float64 where the model can run in it. How far rounding moves right results is
    found out only if an error is in doubt, because it takes perturbed runs of the reference, which
    are slow.
    """

    case: Case
    plan: Plan
    device: Hardware
    check: Check
    eager: Deviation | None  # the errors of plain eager; None where that is the reference
    limit: Limit  # the largest errors accepted; NOTHING where eager's are too large to judge any
    rounding: Limit | None = None  # the most that rounding can do; None where not known
    asked: bool = False  # whether it was asked what rounding can do
    note: str | None = None  # a further remark on what was checked

    def columns(self, findings: Findings) -> Findings:
        """Adds the columns on the reference, eager's errors and the error limit to `findings`."""
        eager, seen = self.eager, self.check.seen
        checks = replace(
            findings.checks,
            checked_inputs=seen.checked_inputs,
            checked_against=seen.checked_against,
            error_limit=self.limit.error,
            eager_error=eager.error if eager and not eager.compares_nothing else None,
            eager_scale_error=eager.scale if eager and eager.scales else None,
        )
        return replace(findings, checks=checks)

    def judge(self, built: Built, findings: Findings) -> Findings:
        """Checks the results of the case's step; returns `findings` with errors and verdict.

        If called again, keeps the larger error and the lesser agreement. Raises Ended if the
        results are wrong, or if eager's own error is too large to judge any mode. Where rounding is
        chaotic (`is_chaotic`) and explains the error, or where nothing is left to compare, the
        results count as not checked.
        """
        variant = self.case.variant
        found = self.check.examine(built, variant)
        known = self.asked or self.eager is None
        in_doubt = not self._accepts(found, self.limit) or self.check.doubts(found, variant)
        if in_doubt and not known:
            self.add_rounding()  # which may examine other batches
            none = replace(findings.checks, error=None, scale_error=None, scale_error_limit=None)
            findings = replace(findings, checks=none)
            found = self.check.examine(built, variant)
        larger = self._add_larger(findings.checks, found)
        findings = self.columns(replace(findings, checks=larger))
        agreed = replace(
            findings.quantized,
            output_cosine=_least(findings.quantized.output_cosine, found.agreement.cosine),
            top1_agreement=_least(findings.quantized.top1_agreement, found.agreement.top1),
        )
        findings = replace(findings, quantized=agreed)
        if not self._accepts(found, self.limit):
            return self._doubt(found, findings)
        findings = replace(findings, checks=self._describe(found, findings.checks))
        return check_state(self.check, built, findings)

    def _describe(self, found: Deviation, checks: Checks) -> Checks:
        """Adds what was checked to `checks`, and what was not, and why."""
        places, unchecked = sorted(found.explained), self.check.unchecked
        explained = EXPLAINED.format(dtype=self.case.variant.dtype, places=", ".join(places))
        if found.compares_nothing:
            note = explained if places else NOTHING_COMPARED.format(unchecked)
            return replace(checks, checked=Checked.NOT, checked_note=note, checked_inputs=None)
        by_rounding = self.rounding is not None and not is_chaotic(self.rounding)
        notes = (
            BY_ROUNDING if by_rounding else None,
            explained if places else None,
            self.check.seen.note,
            self.note,
        )
        return replace(
            checks,
            checked=Checked.EXACT,
            checked_note="; ".join(filter(None, notes)) or None,
            unchecked_outputs=", ".join(filter(None, [unchecked, *places])) or None,
        )

    def _doubt(self, found: Deviation, findings: Findings) -> Findings:
        """Ends the check of results whose errors `found` exceed the limit.

        If rounding is chaotic (`is_chaotic`) and explains errors as large, returns `findings` with
        the results marked as not checked. Otherwise raises Ended, because they are wrong or cannot
        be judged.
        """
        limit, dtype = self.limit, self.case.variant.dtype
        if self.rounding and is_chaotic(self.rounding):
            limit = self.rounding
            if limit.accepts(found):
                error = f"{limit.error:.0%}" if math.isfinite(limit.error) else "any amount"
                note = CHAOTIC.format(dtype=dtype, error=error)
                return unchecked(findings, note)
        if self.eager and limit == NOTHING:
            error, accept = _describe_error(self.eager), _accept(self.eager.error)
            reason = UNJUDGED.format(dtype=dtype, error=error, accept=accept)
            raise Ended(Status.WRONG_RESULT, reason, findings)
        by_user = replace(limit, error=max(limit.error, self.plan.max_error or 0.0))
        raise Ended(Status.WRONG_RESULT, self._wrong_reason(found, by_user), findings)

    def _wrong_reason(self, found: Deviation, limit: Limit) -> str:
        dtype, eager = self.case.variant.dtype, self.eager
        reference, scale = REFERENCE[self.check.seen.checked_against], limit.worst_scale(found)
        if found.error <= limit.error:
            what = (
                f"the scale of the {scale.place} is off by {scale.value:.2g} of it against "
                f"{reference}"
            )
            usual, accepted = eager and f", eager's by {eager.scale:.2g} at {dtype}", scale.limit
        else:
            at = f" in {found.place}" if found.place else ""
            what = f"{_describe_error(found)} against {reference}{at}"
            usual, accepted = eager and f", eager's is {eager.error:.2g} at {dtype}", limit.error
        return (
            f"{what}{usual or ''}; accepted is {accepted:.2g}; check whether seed=1 and another "
            f"dtype or mode show it too{_accept(found.error)} ({GUIDE})"
        )

    def baseline_is_right(
        self, built: Built, variant: Variant, findings: Findings
    ) -> tuple[bool, Findings]:
        """Returns whether the baseline's results are right, and `findings` with its errors."""
        found = self.check.examine(built, variant)
        limit = Limit(EAGER_LIMIT * self.check.seen.tolerance(variant))
        if not self._accepts(found, limit) and (seen := _rounding(self.check, variant)):
            found = seen.check.examine(built, variant)
            if seen.limit:
                limit = replace(seen.limit, error=max(limit.error, seen.limit.error))
        error = None if found.compares_nothing else found.error
        checks = replace(findings.checks, baseline_error=error, baseline_error_limit=limit.error)
        return self._accepts(found, limit), replace(findings, checks=checks)

    def _add_larger(self, checks: Checks, found: Deviation) -> Checks:
        """Returns `checks` with each error replaced by that of `found` if that is larger or nan.

        A scale error (how far a gradient's or update's ratio to its true value is from 1) has a
        limit of its own for each parameter. So scale errors are compared as shares of their limits.
        """
        if found.compares_nothing:
            return checks
        if checks.error is None or not found.error <= checks.error:
            checks = replace(checks, error=found.error, error_place=found.place)
        seen = self.limit.worst_scale(found)
        known = checks.scale_error_limit
        before = Scale(None, checks.scale_error or 0.0, math.inf if known is None else known)
        if seen.place is None or seen.share < before.share:
            return checks
        return replace(checks, scale_error=seen.value, scale_error_limit=seen.limit)

    def _accepts(self, found: Deviation, limit: Limit) -> bool:
        by_user = self.plan.max_error is not None and found.error <= self.plan.max_error
        return by_user or limit.accepts(found)

    def add_rounding(self) -> None:
        """Sets `limit` anew, with the errors that rounding causes in perturbed right steps.

        This may replace `check` by one on other batches, or by one that leaves out what rounding
        explains, and `eager` by eager's errors there. `limit` becomes NOTHING, so that no mode is
        accepted, where eager's errors are neither plausible nor explained by rounding, and where
        rounding is chaotic (`is_chaotic`) and a limit from eager's errors would exceed CHAOS too.
        If the effects of rounding cannot be found out, `limit` stays the same if eager's error is
        plausible, and else becomes NOTHING.
        """
        variant, seen = self.case.variant, _rounding(self.check, self.case.variant)
        assert self.eager is not None
        self.asked = True
        if seen is not None:
            plain = plain_eager(seen.subject, self.case, self.device)
            self.check, self.rounding = seen.check, seen.limit
            self.eager = self.check.examine(plain, variant)
        sane = eager_is_sane(self.eager.error, variant.dtype)
        usual, by_rounding = self.check.limit(self.eager, variant), self.rounding
        if by_rounding is None:
            self.limit = usual if sane else NOTHING
            return
        self.limit = by_rounding
        if sane:  # `usual` has no limits of single parameters
            error, scale = max(by_rounding.error, usual.error), max(by_rounding.scale, usual.scale)
            self.limit = replace(by_rounding, error=error, scale=scale)
        if is_chaotic(by_rounding):
            self.limit = usual if CHAOS.covers(usual) else NOTHING
        if not (sane or by_rounding.accepts(self.eager)):
            self.limit = NOTHING


def unchecked(findings: Findings, note: str) -> Findings:
    """Returns `findings` with the results marked as not checked; `note` says why."""
    return replace(
        findings, checks=replace(findings.checks, checked=Checked.NOT, checked_note=note)
    )


def check_state(check: Check, built: Built, findings: Findings) -> Findings:
    """Checks how a step of `built` changes its own state, such as buffers and optimizer state.

    Returns `findings` with the columns on it. Raises Ended if the state is wrong.
    """
    state = check.examine_state(built)
    findings = replace(findings, loss_scaling=state.scaling or findings.loss_scaling)
    if state.reason:
        raise Ended(Status.WRONG_RESULT, state.reason, findings)
    return findings


def judge(check: Check, subject: Subject, case: Case, plan: Plan, device: Hardware) -> ExactJudge:
    """Returns a judge of `case`, whose error limits depend on eager's errors.

    Eager runs at the case's dtype and autocast. If plain eager is itself the reference, the limits
    depend on the precision alone.
    """
    variant, eager = case.variant, None
    if check.seen.is_exact:
        eager = check.examine(plain_eager(subject, case, device), variant)
    judge = ExactJudge(case, plan, device, check, eager, check.limit(eager, variant))
    if eager and not eager_is_sane(eager.error, variant.dtype):
        judge.add_rounding()
    return judge


def _rounding(check: Check, variant: Variant) -> RoundingCheck | None:
    try:
        return check.rounding(variant)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        traceback.print_exc()
        return None


def plain_eager(subject: Subject, case: Case, device: Hardware) -> Built:
    """Builds a copy of `subject` in eager mode, with the case's dtype and autocast.

    It is of the model's own implementation and weights, so that a kernel or a quantizer is not its
    own standard.
    """
    return in_eager(subject, case, case.variant.mode.of_torch().without(QUANTIZE), device)


def in_eager(subject: Subject, case: Case, mode: Mode, device: Hardware) -> Built:
    """Builds a copy of `subject` as `mode` in eager, with the case's dtype.

    It does not use inference mode: tensors that a model caches there could not be used by other
    modes.
    """
    grad = "no_grad" if mode.grad == "inference_mode" else None
    variant = replace(case.variant, mode=mode.eager_mode(grad))
    phase = phase_of(case.options.of_baseline())
    own = modes.prepare(subject, variant, phase)
    eager = modes.build(own, variant, case.model.fullgraph, device, phase)
    eager.adjust_start()
    return eager


def _least(*agreements: float | None) -> float | None:
    return min((one for one in agreements if one is not None), default=None)
