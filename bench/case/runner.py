"""Measures a case in the process started for it, from building the model to the last check."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from modescope.bench.case import paired_timing
from modescope.bench.case.blame import blame_gradients, compilers_reason, name_what_is_left
from modescope.bench.case.examine import Examined, examine
from modescope.bench.case.torch_setup import set_up_torch
from modescope.bench.checking import own_kernels, steady_work
from modescope.bench.checking.random_judge import Judge, RandomJudge, check_without_randomness
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import find
from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import cold_data, mixed_calls
from modescope.bench.evidence.first_call import Contender, enter
from modescope.bench.model import torch_settings
from modescope.bench.model.subject import Subject
from modescope.bench.modes import backends, kernels, quantizing
from modescope.bench.passes import passes
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import Progress, UsageError, one_line, with_place
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import (
    Ended,
    Findings,
    Result,
    add_flag,
    add_note,
)

KEEPS_RANDOMNESS = (
    "a package draws its random numbers itself, so nothing was checked without them: only whether "
    "results are spread as those of eager"
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
            return Result(Status.OOM, one_line(error), Findings())
        reason = compilers_reason(error, case)
        if reason is None:
            raise
        return Result(Status.FAILED, with_place(reason, error), Findings())


def fill(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Measures `case` like `run`, unless its first call has to fill the compiler's cache.

    It then ends after that call, with the status `CACHE_FILLED`.
    """
    return run(progress, case, replace(plan, fills_cache=True), run_id)


def _measure(progress: Progress, case: Case, plan: Plan, run_id: str | None) -> Result:
    device = find(case.device)
    set_up_torch(case, plan)
    entered = _enter(progress, examine(progress, case, device, plan), case, device, plan)
    scene, findings = _time(progress, entered, case, device, plan)
    random = isinstance(entered.judge, RandomJudge)
    del entered  # baseline and reference: passes need the candidate alone in the process
    findings = passes.run(progress, replace(scene, run_id=run_id), findings)
    if backends.is_prebuilt(case.variant.mode):
        findings = add_note(findings, ["checked_note"], KEEPS_RANDOMNESS if random else None)
        random = False
    if not random:  # otherwise to be checked on a copy that draws no random numbers
        return Result(Status.OK, None, findings)
    progress("last check", Result(Status.OK, None, findings, ("checked_note",)))
    del scene
    return Result(Status.OK, None, check_without_randomness(case, plan, device, findings))


@dataclass(frozen=True)
class _Entered:
    """The case's mode and its baseline after their first calls, ready to be timed."""

    candidate: Contender
    baseline: Contender | None
    judge: Judge
    work: steady_work.WorkOfNewCall | None
    settings: Mapping[str, Any]
    put_back: tuple[str, ...]  # names of settings that building or first calls changed
    findings: Findings


def _enter(
    progress: Progress, examined: Examined, case: Case, device: Hardware, plan: Plan
) -> _Entered:
    """Makes the first calls of the case's mode and of its baseline, and checks their results.

    Raises Ended if the case's mode fails or is wrong, or has filled the compiler's cache.
    """
    subject, judge, findings = examined.subject, examined.judge, examined.findings
    with blame_gradients(subject, case.variant, findings):
        candidate = enter(subject, case.variant, case, device, plan)
    if interpreted := kernels.interpreted():  # set by the model
        raise Ended(Status.SKIPPED, interpreted, findings)
    findings = _describe(candidate, findings)
    if plan.fills_cache and findings.compilations.compiler_cache_misses:
        raise Ended(Status.CACHE_FILLED, "the compiler's cache lacked its code", findings)
    progress("check")
    if kernels.is_asked(case.variant.mode):
        own_kernels.check_arguments(subject, case, device, findings)
    findings = judge.judge(candidate.built, findings)
    if kernels.is_asked(case.variant.mode):  # its note is added when results are checked again
        own_kernels.check_in_fp32(judge, subject, case, plan, device, findings)
    progress("baseline")
    baseline, findings = _baseline(judge, subject, candidate, case, device, plan, findings)
    settings, put_back = examined.settings, examined.put_back
    put_back += torch_settings.put_back(settings)
    return _Entered(candidate, baseline, judge, examined.work, settings, put_back, findings)


def _time(
    progress: Progress, entered: _Entered, case: Case, device: Hardware, plan: Plan
) -> tuple[passes.Scene, Findings]:
    """Times the case: paired rounds, then all other clocks; and proves that its mode took effect.

    Returns what passes examine, and the findings.
    """
    candidate, baseline, findings = entered.candidate, entered.baseline, entered.findings
    pair = [candidate, baseline] if baseline else [candidate]
    cold = cold_data.set_up([contender.built for contender in pair], case.options.data, device)
    pair = [replace(each, built=built) for each, built in zip(pair, cold.built, strict=True)]
    candidate, baseline = pair[0], pair[1] if baseline else None
    findings = replace(findings, cached_data=cold.columns)
    varies = candidate.facts.varies
    with candidate.built.keep_state():  # a module that counts its calls ends as it began
        longer = mixed_calls.extend_cap(plan) if varies else plan
        with name_what_is_left(case, findings):
            findings, latency_s = paired_timing.run(
                progress, candidate, baseline, device, longer, findings
            )
    in_calls = torch_settings.put_back(entered.settings)
    findings = _add_settings(findings, entered.put_back, in_calls)
    if varies:
        progress("sizes")
        with candidate.built.keep_state():
            other = baseline.built if baseline else None
            sizes = mixed_calls.size_latencies(candidate.built, other, device)
            findings = replace(findings, size_latencies=sizes)
    progress("check again")
    findings = entered.judge.judge(candidate.built, findings)
    timed = [contender for contender in (candidate, baseline) if contender]
    if entered.work:
        findings = steady_work.compare(entered.work, timed, findings)
    replays = [contender for contender in timed if contender.replays_graphs(device)]
    if not replays:
        progress("evidence")
        findings = _prove(candidate, baseline, cold, device, findings)
    scene = passes.Scene(candidate, case, device, plan, latency_s)
    notes = passes.notes(passes.applicable(scene))
    unproven = ("in_effect_note",) if replays else ()
    partial_result = Result(
        Status.OK, None, findings, (*paired_timing.CLOCK_NOTES, *unproven, *notes)
    )
    progress("clocks", partial_result)  # which is kept if timing an empty batch kills the process
    if not plan.latency_alone:
        with candidate.built.keep_state():
            read = partial(
                paired_timing.run_clocks, candidate, baseline, case, device, plan, latency_s
            )
            findings = passes.guard("clocks", paired_timing.CLOCK_NOTES, read, findings)
    if replays:  # proved last, because that profiles, which may slow down what is timed later
        progress("evidence", Result(Status.OK, None, findings, (*unproven, *notes)))
        prove = partial(_prove, candidate, baseline, cold, device)
        findings = passes.guard("evidence", unproven, prove, findings)
    return scene, findings


def _add_settings(findings: Findings, put_back: Iterable[str], in_calls: Sequence[str]) -> Findings:
    before = [name for name in dict.fromkeys(put_back) if name not in in_calls]
    own = replace(
        findings.models_own,
        settings_put_back=json.dumps(before, ensure_ascii=False) if before else None,
        settings_in_calls=json.dumps(in_calls, ensure_ascii=False) if in_calls else None,
    )
    findings = replace(findings, models_own=own)
    return add_flag(findings, "settings_changed") if in_calls else findings


def _describe(candidate: Contender, findings: Findings) -> Findings:
    facts, seen, made = candidate.facts, candidate.seen, candidate.built.made
    frozen = seen.compiled_code.frozen_weights or seen.compiled_code.packed_weights
    checks = replace(
        facts.kernels.add_to(facts.observed.add_to(findings.checks)),
        torch_warnings=json.dumps(seen.warnings),
        layout_kept=bool(frozen or made.weights_bytes) or None,
        first_call_s=candidate.first_call_s,
        graphs=facts.compiled.graphs,
        autotuned=facts.compiled.autotuned,
    )
    return replace(
        findings,
        checks=facts.breaks.add_to(checks) if facts.breaks else checks,
        regions=facts.regions,
        quantized=quantizing.columns(candidate.built.subject.module),
        packaged=made.columns,
        code=seen.code,
        compiled_code=seen.compiled_code,
        compilations=seen.compilations,
        setup=seen.setup,
        first_pass=candidate.first_pass,
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
        of_baseline = replace(case, options=case.options.of_baseline())
        baseline = enter(subject, variant, of_baseline, device, plan)
    except Exception as error:
        if isinstance(error, (Ended, UsageError)) or is_out_of_memory(error):
            raise
        traceback.print_exc()
        note = NO_BASELINE.format(
            mode=variant.mode.name,
            reason=(compilers_reason(error, case) or one_line(error)).rstrip("."),
            other="no_grad" if variant.mode.grad == "enabled" else "eager",
        )
        checks = replace(findings.checks, baseline_note=note)
        return None, add_flag(replace(findings, checks=checks), "baseline_failed")
    if not variant.mode.compiles:
        checks = replace(findings.checks, baseline_first_call_s=baseline.first_call_s)
        findings = replace(findings, checks=checks)
    elif baseline.facts.compiled.graphs == 0:
        facts = replace(baseline.facts, compiled=candidate.facts.compiled)
        baseline = replace(baseline, facts=facts)
    is_right, findings = judge.baseline_is_right(baseline.built, variant, findings)
    return (baseline, findings) if is_right else (None, add_flag(findings, "baseline_wrong"))


def _prove(
    candidate: Contender,
    baseline: Contender | None,
    cold: cold_data.Cold,
    device: Hardware,
    findings: Findings,
) -> Findings:
    """Returns `findings` with columns on whether the case's mode and its data took effect.

    If the baseline's mode did not take effect, its times are dropped and a flag is added. If the
    case was to compile and no graph was counted, they are dropped too: it is the baseline again.
    """
    checks, facts = candidate.effect(device).add_to(findings.checks), candidate.facts
    findings = replace(findings, checks=cold.add_to(checks))
    if baseline is None:
        return findings
    if not baseline.effect(device).in_effect:
        findings = add_flag(findings, "baseline_not_in_effect")
    elif facts.compiled.graphs or facts.compiled.loaded or not backends.find(facts.mode).counted:
        return findings
    rounds = findings.rounds and replace(
        findings.rounds, baseline_latency_rounds_s=None, case_ran_first=None
    )
    clocks = replace(findings.clocks, baseline_device_rounds_s=None)
    return replace(findings, rounds=rounds, clocks=clocks)
