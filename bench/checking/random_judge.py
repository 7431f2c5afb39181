"""Judges the results of a model that draws random numbers, and chooses the judge of a case."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace

import torch

from modescope.bench.checking import exact_judge, randomness
from modescope.bench.checking.checks import Check
from modescope.bench.checking.exact_judge import ExactJudge
from modescope.bench.checking.prepare import check_for
from modescope.bench.checking.randomness import SWITCHES
from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence.first_call import enter
from modescope.bench.model import plain_call
from modescope.bench.model.subject import Built, Subject
from modescope.bench.modes import axes, fp32_products
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case, Variant
from modescope.bench.records.errors import one_line
from modescope.bench.records.outcomes import Checked, Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings
from modescope.bench.records.tolerances import EPS

CALLS, PERMUTATIONS = 16, 2_000

MORE_CALLS, MORE_PERMUTATIONS = 64, 20_000
"""Used where the first calls leave a doubt."""

DOUBT = 0.05

CERTAIN = 2e-4
"""Largest p-value at which the randomness of a mode is wrong: a false alarm in 5,000 doubts."""

LEAST_SPREAD, LEAST_SHIFT = 1.25, 0.02
"""The least differences that count: the factor between variances, and the squared distance of means
over the variances."""

ROUNDING_SHIFT = 4.0
"""Rounding may shift the means of a correct mode by so many times the shift between eager and eager
at fp32. Two steps that round independently are twice as far apart, squared, as each is from
fp32."""

NO_SWITCH = (
    "the model draws random numbers, and neither dropout probabilities of 0 nor eval() of its "
    "parts switches them off"
)

DEPENDS = "its result depends on earlier calls"

FROZEN = 1e-6
"""Results whose variance over calls is below this share of eager's are the same in each call."""


@dataclass(frozen=True)
class RandomJudge:
    """Compares spread and mean of results over repeated calls of a mode with those of plain eager.

    `kept` is a copy of the model, from which eager is built again in case of doubt. `eager` has the
    results of its first calls. The values themselves are compared after all timing, on a copy
    without randomness (`check_without_randomness`).
    """

    check: Check
    kept: Subject  # on the host, to leave the GPU's memory alone
    eager: randomness.Draws
    case: Case
    plan: Plan
    device: Hardware

    def columns(self, findings: Findings) -> Findings:
        """Returns `findings` unchanged, because nothing is known before the calls."""
        return findings

    def judge(self, built: Built, findings: Findings) -> Findings:
        """Compares the step's randomness with eager's; returns `findings` with what was seen.

        Raises Ended if the randomness is missing or differs, if a result is not finite, or if the
        step's own state is wrong.
        """
        dtype, seed = self.case.variant.dtype, self.plan.seed
        drawn = randomness.take(self.check, built, CALLS, seed)
        usual = self.eager
        seen = randomness.compare(drawn, usual, dtype, PERMUTATIONS)
        if seen.p_value <= DOUBT or not seen.finite:
            plain = exact_judge.plain_eager(self._subject(), self.case, self.device)
            usual = randomness.take(self.check, plain, MORE_CALLS, seed + 1)
            drawn = randomness.take(self.check, built, MORE_CALLS, seed + 2)
            seen = randomness.compare(drawn, usual, dtype, MORE_PERMUTATIONS)
        checks = replace(findings.checks, drawn_spread=seen.spread)
        findings = replace(findings, checks=checks)
        if differs(seen) and differs(seen, self._shift_by_rounding(usual)):
            raise Ended(Status.WRONG_RESULT, _other_randomness_reason(seen), findings)
        return exact_judge.check_state(self.check, built, findings)

    def baseline_is_right(
        self, built: Built, variant: Variant, findings: Findings
    ) -> tuple[bool, Findings]:
        """Returns whether all results of the baseline are finite, and `findings`.

        Other errors are found where the baseline is measured as a case of its own.
        """
        results = self.check.results(built)
        return all(bool(result.isfinite().all()) for result in results.values()), findings

    def _shift_by_rounding(self, usual: randomness.Draws) -> float:
        """Returns the largest shift of means that rounding may cause against `usual`.

        `usual` are results of eager calls. A shift is a squared distance of means over their
        variances. The limit comes from a comparison of `usual` with eager at fp32, and is 0 if the
        case is in fp32. Batch norm over few values amplifies rounding.
        """
        variant = self.case.variant
        if EPS[variant.dtype] <= EPS["fp32"]:
            return 0.0
        mode = replace(variant.mode.eager_mode(), autocast=False)
        exact_case = replace(self.case, variant=replace(variant, mode=mode, dtype="fp32"))
        plain = exact_judge.plain_eager(self._subject(), exact_case, self.device)
        drawn = randomness.take(self.check, plain, MORE_CALLS, self.plan.seed + 3)
        seen = randomness.compare(drawn, usual, variant.dtype, MORE_PERMUTATIONS)
        return ROUNDING_SHIFT * seen.shift if seen.p_value <= DOUBT else 0.0

    def _subject(self) -> Subject:
        return self.kept.cast(None).to(self.device.torch_device)


def check_without_randomness(
    case: Case, plan: Plan, device: Hardware, findings: Findings
) -> Findings:
    """Checks the mode on a copy without randomness. Raises Ended if its results are wrong.

    The results count as not checked if the copy cannot be built, compiled or called.
    """
    torch._dynamo.reset()
    try:
        return _check_quiet_copy(case, plan, device, findings)
    except Ended:
        raise
    except Exception as error:
        traceback.print_exc()
        note = f"the check without randomness failed ({one_line(error, 160)})"
        return exact_judge.unchecked(findings, note)


def _check_quiet_copy(case: Case, plan: Plan, device: Hardware, findings: Findings) -> Findings:
    phase = phase_of(case.options)
    torch.manual_seed(plan.seed)
    switches = axes.switches(case)
    axes.switch_back(switches)  # for what is compared with, before the mode is built
    drawn = plain_call.build_drawn(case, device)
    subject = replace(phase.prepare(drawn.subject, plan.seed), switches=switches)
    subject = plain_call.find_changes(subject, drawn.to_call, phase.trains).subject
    off: list[str] = []
    for name, turn_off in SWITCHES.items():
        subject = subject.change(turn_off)
        off.append(name)
        with fp32_products.exact():
            check = check_for(phase, subject, device, plan.seed)
        if not (check.seen.random or check.unfit):
            break
    else:
        return exact_judge.unchecked(findings, check.unfit or NO_SWITCH)
    if check.seen.depends:
        return exact_judge.unchecked(findings, DEPENDS)
    judge = exact_judge.judge(check, subject, case, plan, device)
    built = enter(subject, case.variant, case, device, plan).built
    findings = judge.judge(built, judge.columns(findings))
    checks = findings.checks
    if checks.checked == Checked.NOT:
        return findings
    notes = filter(None, (f"in a copy in which {' and '.join(off)}", checks.checked_note))
    checks = replace(checks, checked=Checked.WITHOUT_RANDOMNESS, checked_note="; ".join(notes))
    return replace(findings, checks=checks)


def differs(seen: randomness.DrawsComparison, by_rounding: float = 0.0) -> bool:
    """Returns whether the random results compared in `seen` differ by much and not by chance.

    They do if a value is not finite; or if the variances differ by a factor of LEAST_SPREAD, or the
    means by more than LEAST_SHIFT and `by_rounding`, with a p-value of at most CERTAIN.
    `by_rounding` is the largest shift of means that rounding explains.
    """
    if not seen.finite:
        return True
    shifted = seen.shift > max(LEAST_SHIFT, by_rounding)
    much = not 1 / LEAST_SPREAD < seen.spread < LEAST_SPREAD or shifted
    return much and seen.p_value <= CERTAIN


@dataclass(frozen=True)
class NoJudge:
    """Accepts all results, because the results of different calls cannot be compared."""

    reason: str

    def columns(self, findings: Findings) -> Findings:
        """Returns `findings` with the reason why nothing is checked."""
        return exact_judge.unchecked(findings, self.reason)

    def judge(self, built: Built, findings: Findings) -> Findings:
        """Returns `findings` unchanged, because the results cannot be checked."""
        return findings

    def baseline_is_right(
        self, built: Built, variant: Variant, findings: Findings
    ) -> tuple[bool, Findings]:
        """Returns True and `findings` unchanged, because the results cannot be checked."""
        return True, findings


Judge = ExactJudge | RandomJudge | NoJudge
"""Decides whether the results of a case are correct."""


def judge_of(check: Check, subject: Subject, case: Case, plan: Plan, device: Hardware) -> Judge:
    """Returns a judge for the kind of model: random, deterministic, or one that cannot be judged.

    `check` knows the kind from calls in plain eager. May run a copy of `subject` in eager.
    """
    if check.seen.depends:
        return NoJudge(DEPENDS)
    if check.seen.random:
        plain = exact_judge.plain_eager(subject, case, device)
        usual = randomness.take(check, plain, CALLS, plan.seed + 1)
        return RandomJudge(check, subject.on_host(), usual, case, plan, device)
    return exact_judge.judge(check, subject, case, plan, device)


def _other_randomness_reason(seen: randomness.DrawsComparison) -> str:
    if not seen.finite:
        return "results are not finite in some calls, while those of eager are"
    if seen.spread < FROZEN:
        return (
            "each call has the same results, while those of eager differ from call to call: the "
            "mode drops the model's randomness (such as dropout) or repeats the same random numbers"
        )
    return (
        "the results are not spread as those of eager over repeated calls: "
        f"{seen.spread:.2g} times eager's variance, and means apart by {seen.shift:.2g} times it "
        f"(p = {seen.p_value:.1g}), so the mode's randomness (such as dropout) is another one"
    )
