"""Measures a case in the process started for it, from building the model to the last check."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch

from modescope.bench.case import mixed_calls, paired_timing, passes, steady_work
from modescope.bench.case.first_call import Contender, enter
from modescope.bench.case.random_judge import Judge, RandomJudge, check_without_randomness, judge_of
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.bench.records.cases import Case, Plan, Variant
from modescope.bench.records.errors import Progress, UsageError, one_line, with_place
from modescope.bench.records.results import (
    CACHE_FILLED,
    Ended,
    Findings,
    Result,
    add_columns,
    add_flag,
)
from modescope.bench.steps import (
    axes,
    backends,
    compiler,
    copies,
    fp32_products,
    module_state,
    plain_call,
    torch_settings,
    witness,
)
from modescope.bench.steps.evidence import mode_effect
from modescope.bench.steps.phases import phase_of
from modescope.bench.steps.subject import Subject
from modescope.bench.timing.timers import synchronize_cost

NEEDS_GRADIENTS = (
    "forward needs gradients, which {grad} does not record ({failure}); mode.grad=enabled does"
)

EAGER_FAILS = "the model fails in plain eager, before any mode is tried"

OTHER_COPY = (
    "a copy of the model does something else than the model itself ({fault}), and modescope needs "
    "several of it in one process; build a new module in each call of the builder"
)

AFTER_CALLS = (
    "a call fails after others that worked ({error}): what forward keeps ({left}) cannot be put "
    "back before each call"
)

REACHED = (
    "a module that the builder made uses {place} of another one that it made, through a closure, a "
    "weak reference or a table of the process; modescope needs several copies of the model in one "
    "process (the mode, its baseline, a reference), so let each find its own parts"
)

NO_BASELINE = (
    "the baseline {mode} fails, so nothing was compared with it: {reason}; choose another "
    "baseline.mode, such as {other}, or baseline.dtype"
)


def run(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Measures `case` according to `plan`. If the case fails, the result has a status and a reason.

    `run_id` names the trace files of the case; without it, no files are written. Other exceptions
    propagate: a UsageError is shown to the user, and the parent process records the rest.
    """
    try:
        return _measure(progress, case, plan, run_id)
    except Ended as ended:
        return ended.result
    except Exception as error:
        if is_out_of_memory(error):
            return Result("oom", one_line(error), Findings())
        reason = _compilers_reason(error, case)
        if reason is None:
            raise
        return Result("failed", with_place(reason, error), Findings())


def fill(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Measures `case` like `run`, unless its first call has to fill the compiler's cache.

    It then ends after that call, with the status CACHE_FILLED.
    """
    return run(progress, case, replace(plan, fills_cache=True), run_id)


def _compilers_reason(error: Exception, case: Case) -> str | None:
    if not compiler.is_imported():
        return None
    from modescope.bench.steps.evidence import graph_break_watch

    return graph_break_watch.failure_reason(error, case.model)


def _measure(progress: Progress, case: Case, plan: Plan, run_id: str | None) -> Result:
    device = find(case.device)
    set_up_torch(case, plan)
    candidate, random, findings = _time(progress, case, device, plan)
    # Baseline and reference are freed here: passes need the candidate alone in the process.
    scene = passes.Scene(candidate, case, device, plan, run_id)
    findings = passes.run(progress, scene, findings)
    if not random:
        return Result("ok", None, findings)
    progress("last check", Result("ok", None, findings, ("checked_note",)))
    del candidate, scene
    return Result("ok", None, check_without_randomness(case, plan, device, findings))


def set_up_torch(case: Case, plan: Plan) -> None:
    """Sets all global settings of torch on which a measurement depends."""
    torch.set_num_threads(case.threads)
    fp32_products.use(case.variant.dtype)
    axes.set_up([each for each in (case.variant, case.baseline) if each])
    torch.manual_seed(plan.seed)
    phase_of(case.options).apply_settings()


@contextmanager
def _blame(fails: str, case: Case, findings: Findings, advice: str | None = None) -> Iterator[None]:
    """Turns an error in the block into Ended, with a reason that does not blame the mode.

    The reason consists of `fails` (what fails instead), the error and `advice`.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (Ended, UsageError)) or is_out_of_memory(error):
            raise
        traceback.print_exc()
        reason = _compilers_reason(error, case) or one_line(error)
        text = "; ".join(filter(None, (f"{fails}: {reason}", advice)))
        raise Ended("failed", text, findings) from error


@contextmanager
def _name_what_is_left(case: Case, findings: Findings) -> Iterator[None]:
    """Adds to an error of timed eager calls what may be its reason: calls before it worked."""
    mode = case.variant.mode
    try:
        yield
    except Exception as error:
        final = isinstance(error, (Ended, UsageError)) or is_out_of_memory(error)
        if final or mode.compiles or mode.graph:
            raise
        traceback.print_exc()
        left = findings.state_left or "outside of its attributes"
        reason = AFTER_CALLS.format(error=one_line(error), left=left)
        raise Ended("failed", reason, findings) from error


def _needs_gradients(subject: Subject, variant: Variant) -> str | None:
    context = axes.context("grad", variant)
    failure = plain_call.find_failure(subject, context()) if context else None
    return failure and NEEDS_GRADIENTS.format(grad=variant.mode.grad, failure=failure)


def _time(
    progress: Progress, case: Case, device: Hardware, plan: Plan
) -> tuple[Contender, bool, Findings]:
    """Checks and times the case.

    Returns the timed candidate, whether it draws random numbers, and the findings. A candidate that
    draws random numbers must later be checked on a copy that draws none.
    """
    progress("reference")
    phase, settings = phase_of(case.options), torch_settings.read()
    if case.alternates:  # the steps change these themselves
        settings |= dict.fromkeys(fp32_products.SETTINGS)
    precision = torch.get_float32_matmul_precision()
    drawn = plain_call.build_drawn(case, device)
    subject = drawn.subject
    put_back, compiled = subject.put_back, mode_effect.read_compiled()
    was_set = ", ".join(put_back)  # which the model may need
    after = f", after what its builder set was put back ({was_set})" if put_back else ""
    misuse = plain_call.find_misuse(subject)
    with _blame(f"{EAGER_FAILS}{after}", case, Findings(), misuse):
        if subject.again is None and (fault := witness.find_fault(subject, drawn.to_call)):
            raise Ended("failed", OTHER_COPY.format(fault=fault), Findings())
        subject = phase.prepare(subject, plan.seed)
        examined = plain_call.find_changes(subject, drawn.to_call, phase.trains)
        subject = examined.subject
        findings = Findings(
            named_inputs=bool(subject.inputs.kwargs) or None,
            changed_arguments=", ".join(subject.changes) or None,
            changed_state=module_state.name_places(subject.state),
            state_left=module_state.name_places(examined.left),
            dtypes_kept=", ".join(_kept_dtypes(subject)) or None,
        )
        reached = copies.Reached(subject.module)
        work = steady_work.work_of_new_call(examined.plain, findings, reached)
        if reached.place:
            raise Ended("failed", REACHED.format(place=reached.place), findings)
        del drawn, examined, reached
        check = phase.check(subject, device, plan.seed)
    if work and not work.operators and check.seen.depends:
        raise Ended("failed", steady_work.REMEMBERED, findings)
    findings = replace(
        findings,
        matmul_precision=precision,
        unchecked_outputs=check.unchecked,
        synchronize_s=synchronize_cost(device),
    )
    if check.unfit:
        raise Ended("failed", check.unfit, findings)

    varies = bool(subject.order)
    if case.compiles or compiler.is_imported():  # as the model may have done
        compiler.import_it()  # not in the first call, whose time is measured
        # by default it silently runs eager, which a row of calls that vary says
        silent = varies or torch._dynamo.config.suppress_errors  # beside which torch refuses it
        torch._dynamo.config.fail_on_recompile_limit_hit = not silent
    progress("first call")
    seen = check.seen
    subject = replace(subject, random=seen.random)
    try:
        judge = judge_of(check, subject, case, plan, device)
        own_graphs = mode_effect.read_compiled().since(compiled).graphs  # only eager ran so far
        findings = replace(judge.columns(findings), own_graphs=own_graphs or None)
        put_back += torch_settings.put_back(settings)
        candidate = enter(subject, case.variant, case, device, plan)
    except Exception as error:
        if is_out_of_memory(error) or (reason := _needs_gradients(subject, case.variant)) is None:
            raise
        raise Ended("failed", reason, findings) from error
    findings = _describe(candidate, findings)
    if plan.fills_cache and findings.compiler_cache_misses:
        raise Ended(CACHE_FILLED, "the compiler's cache lacked its code", findings)
    progress("check")
    findings = judge.judge(candidate.built, findings)
    progress("baseline")
    baseline, findings = _baseline(judge, subject, candidate, case, device, plan, findings)
    del subject  # from here on only what is timed, and its references, take memory

    put_back += torch_settings.put_back(settings)
    with candidate.built.keep_state():  # a module that counts its calls ends as it began
        longer = mixed_calls.extend_cap(plan) if varies else plan
        with _name_what_is_left(case, findings):
            findings = paired_timing.run(progress, candidate, baseline, device, longer, findings)
    findings = _add_settings(findings, put_back, torch_settings.put_back(settings))
    if varies:
        progress("sizes")
        with candidate.built.keep_state():
            other = baseline.built if baseline else None
            sizes = mixed_calls.size_latencies(candidate.built, other, device)
            findings = add_columns(findings, sizes)
    progress("check again")
    findings = judge.judge(candidate.built, findings)
    timed = [each for each in (candidate, baseline) if each]
    if work:
        findings = steady_work.compare(work, timed, findings)
    replays = [each for each in timed if each.replays_graphs(device)]
    if not replays:
        progress("evidence")
        findings = _prove(candidate, baseline, device, findings)
    scene = passes.Scene(candidate, case, device, plan, run_id=None)
    notes = passes.notes(passes.applicable(scene))
    unproven = ("in_effect_note",) if replays else ()
    partial_result = Result("ok", None, findings, (*paired_timing.CLOCK_NOTES, *unproven, *notes))
    progress("clocks", partial_result)  # which is kept if the process dies of an empty batch
    if not plan.latency_alone:
        with candidate.built.keep_state():
            read = partial(paired_timing.run_clocks, candidate, baseline, case, device, plan)
            findings = passes.guard("clocks", paired_timing.CLOCK_NOTES, read, findings)
    if replays:  # proved last, because that profiles, which may slow down what is timed later
        progress("evidence", Result("ok", None, findings, (*unproven, *notes)))
        prove = partial(_prove, candidate, baseline, device)
        findings = passes.guard("evidence", unproven, prove, findings)
    return candidate, isinstance(judge, RandomJudge), findings


def _kept_dtypes(subject: Subject) -> list[str]:
    kept = (t.dtype for t in subject.tensors() if t.is_floating_point() or t.is_complex())
    return sorted({str(each).removeprefix("torch.") for each in kept if each != torch.float32})


def _add_settings(findings: Findings, put_back: Iterable[str], in_calls: Sequence[str]) -> Findings:
    before = [each for each in dict.fromkeys(put_back) if each not in in_calls]
    findings = replace(
        findings,
        settings_put_back=json.dumps(before, ensure_ascii=False) if before else None,
        settings_in_calls=json.dumps(in_calls, ensure_ascii=False) if in_calls else None,
    )
    return add_flag(findings, "settings_changed") if in_calls else findings


def _describe(candidate: Contender, findings: Findings) -> Findings:
    facts = candidate.facts
    breaks, observed = facts.breaks, facts.observed
    return replace(
        add_columns(findings, *candidate.columns),
        torch_warnings=json.dumps(candidate.warnings),
        first_call_s=candidate.first_call_s,
        graphs=facts.compiled.graphs,
        **(breaks.columns if breaks else {}),
        autotuned=facts.compiled.autotuned,
        **observed.columns,
    )


def _baseline(
    judge: Judge,
    subject: Subject,
    candidate: Contender,
    case: Case,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> tuple[Contender | None, Findings]:
    """Returns the baseline after its first call; None if there is none, it fails, or it is wrong.

    A baseline that fails says nothing of the case's mode, which is then measured without it, with a
    flag and a note; one that is out of memory raises. A baseline that compiles uses the caches that
    the case filled, so the time of its first call means nothing. If it compiled nothing itself, it
    runs the case's graphs.
    """
    variant = case.baseline
    if variant is None:
        return None, findings
    try:
        subject = replace(subject, order=subject.order_of_baseline)
        baseline = enter(subject, variant, case, device, plan)
    except Exception as error:
        if isinstance(error, (Ended, UsageError)) or is_out_of_memory(error):
            raise
        traceback.print_exc()
        note = NO_BASELINE.format(
            mode=variant.mode.name,
            reason=(_compilers_reason(error, case) or one_line(error)).rstrip("."),
            other="no_grad" if variant.mode.grad == "enabled" else "eager",
        )
        return None, add_flag(replace(findings, baseline_note=note), "baseline_failed")
    if not variant.mode.compiles:
        findings = replace(findings, baseline_first_call_s=baseline.first_call_s)
    elif baseline.facts.compiled.graphs == 0:
        facts = replace(baseline.facts, compiled=candidate.facts.compiled)
        baseline = replace(baseline, facts=facts)
    is_right, findings = judge.baseline_is_right(baseline.built, variant, findings)
    return (baseline, findings) if is_right else (None, add_flag(findings, "baseline_wrong"))


def _prove(
    candidate: Contender, baseline: Contender | None, device: Hardware, findings: Findings
) -> Findings:
    """Returns `findings` with columns on whether the case's mode took effect.

    If the baseline's mode did not take effect, its times are dropped and a flag is added. If the
    case was to compile and no graph was counted, they are dropped too: it is the baseline again.
    """
    findings, facts = add_columns(findings, candidate.effect(device)), candidate.facts
    if baseline is None:
        return findings
    if not baseline.effect(device).in_effect:
        findings = add_flag(findings, "baseline_not_in_effect")
    elif facts.compiled.graphs or not backends.find(facts.mode).counted:
        return findings
    return replace(
        findings,
        baseline_latency_rounds_s=None,
        case_ran_first=None,
        baseline_device_rounds_s=None,
    )
