"""Case -> Result, in the process started for it: the one place where the parts meet."""

from __future__ import annotations

from dataclasses import asdict, replace

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from bench import (
    accuracy,
    compiler_facts,
    evidence,
    examination,
    graph_breaks,
    modes,
    passes,
    race,
)
from bench.calibration import calibrate
from bench.devices import Hardware, find
from bench.entrant import Entrant, enter
from bench.examination import Exam
from bench.isolation import Progress, one_line
from bench.passes import Scene
from bench.records import Case, Ended, Findings, Plan, Result, flagged
from bench.subject import Subject, build
from bench.training import overflow
from bench.training.losses import trainable

OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "_STATUS_ALLOC_FAILED",
)
"""What torch's CPU allocator, the CUDA driver, cuBLAS and cuDNN say in a plain RuntimeError."""


GAVE_UP = (
    "torch.compile compiled the same code over and over and gave up: something that differs from "
    "call to call, such as a number kept in the module, is built into the compiled code"
)


CANNOT_TRACE = (
    "torch.compile cannot trace the whole model: {}; model.fullgraph=false allows graph breaks and "
    "counts them"
)


CANNOT_BREAK = "torch.compile cannot trace the model, and cannot break its graph there: {}"


def run(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Measures `case` as `plan` says; what the case itself gets wrong becomes status and reason.

    `run_id` names the files that it leaves among the study's traces; without one it leaves none.
    Any other exception passes through: UsageError is the user's to mend, the rest is recorded by
    who started this process.
    """
    try:
        return _measure(progress, case, plan, run_id)
    except Ended as ended:
        return ended.result
    except FailOnRecompileLimitHit:
        return Result("failed", GAVE_UP, Findings())
    except (*graph_breaks.STOPS, *graph_breaks.UNBREAKABLE) as error:
        may_break = case.model.fullgraph and not isinstance(error, graph_breaks.UNBREAKABLE)
        reason = CANNOT_TRACE if may_break else CANNOT_BREAK
        where = graph_breaks.summary([graph_breaks.site(error)])
        return Result("failed", reason.format(where), Findings())
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return Result("oom", one_line(error), Findings())


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(text in str(error) for text in OUT_OF_MEMORY)


def _measure(progress: Progress, case: Case, plan: Plan, run_id: str | None) -> Result:
    device = find(case.device)
    _settle(case, plan)
    candidate, findings = _timed(progress, case, device, plan)
    # What took part in timing is gone: the candidate is alone in its process, as passes want it.
    scene = Scene(candidate, case, device, plan, run_id)
    return Result("ok", None, passes.run(progress, scene, findings))


def _timed(
    progress: Progress, case: Case, device: Hardware, plan: Plan
) -> tuple[Entrant, Findings]:
    """The candidate, proven right and in effect, with everything that clocks say about it."""
    progress("reference")
    subject = _subject(case, device, plan)
    exam = examination.prepare(subject, case, device, plan.seed)
    findings = Findings(
        matmul_precision=torch.get_float32_matmul_precision(), **asdict(calibrate(device))
    )
    if exam.unfit:
        raise Ended("failed", exam.unfit, findings)

    progress("first call")
    findings = _limit_error(exam, subject, case, device, findings)
    accepted = _accepted_error(findings, plan)
    candidate = enter(subject, case.variant, case, device, plan)
    progress("check")
    findings = _describe(candidate, findings)
    findings = _check(exam, candidate, case, findings, accepted)
    progress("baseline")
    baseline, findings = _baseline(exam, subject, candidate, case, device, plan, findings)
    del subject  # from here on only what is timed takes memory, and what it is checked against

    with candidate.built.kept():  # one that counts its calls ends as it began
        findings = race.run(progress, candidate, baseline, device, plan, findings)
    progress("check again")
    findings = _check(exam, candidate, case, findings, accepted)
    progress("evidence")
    return candidate, _prove(candidate, baseline, case, device, plan, findings)


def _subject(case: Case, device: Hardware, plan: Plan) -> Subject:
    subject = build(case.model, case.shape).to(device.torch_device)
    if case.training is None:
        return subject
    return trainable(subject, case.training.loss, plan.seed)


def _settle(case: Case, plan: Plan) -> None:
    """Everything global that a measurement depends on, set in one place."""
    torch.set_num_threads(case.threads)
    torch.set_float32_matmul_precision(modes.MATMUL_PRECISION.get(case.variant.dtype, "highest"))
    torch.backends.cudnn.allow_tf32 = case.variant.dtype == "tf32"  # convolutions have their own
    torch.manual_seed(plan.seed)
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # instead of eager without a word
    if case.training and case.training.activation_memory_budget is not None:
        budget = case.training.activation_memory_budget
        torch._functorch.config.activation_memory_budget = budget


def _limit_error(
    exam: Exam, subject: Subject, case: Case, device: Hardware, findings: Findings
) -> Findings:
    eager_error, dtype = _eager_error(exam, subject, case, device), case.variant.dtype
    is_sane = examination.eager_is_sane(case, eager_error, dtype)
    limit = accuracy.accepted_error(eager_error, dtype) if is_sane else 0.0
    return replace(findings, eager_error=eager_error, error_limit=limit)


def _accepted_error(findings: Findings, plan: Plan) -> float:
    """The largest error that does not end the case."""
    assert findings.error_limit is not None
    return max(findings.error_limit, plan.max_error or 0.0)


def _describe(candidate: Entrant, findings: Findings) -> Findings:
    setup, broken = candidate.setup, candidate.broken
    return replace(
        findings,
        first_call_s=candidate.first_call_s,
        graphs=candidate.compiled.graphs,
        graph_breaks=len(broken.sites) if broken else None,
        graph_break_reasons=broken.sites_json if broken else None,
        eager_functions=broken.in_eager_json if broken else None,
        autotuned=candidate.compiled.autotuned,
        seen_grad=candidate.seen.grad,
        seen_autocast=candidate.seen.autocast,
        seen_weight_dtype=candidate.seen.weight_dtype,
        setup_peak_bytes=setup.above_start_bytes if setup else None,
        setup_peak_note=setup.note if setup else None,
        **asdict(compiler_facts.columns(candidate.generated)),
    )


def _eager_error(exam: Exam, subject: Subject, case: Case, device: Hardware) -> float:
    """Error of plain eager that reaches the case's dtype in the case's way."""
    mode = replace(case.variant.mode, compile="none", graph=False)
    variant = replace(case.variant, mode=mode)
    own = subject.cast(modes.weight_dtype(variant))
    eager = modes.build(own, variant, case.model.fullgraph, device, case.training)
    eager.settle()
    return examination.examine(exam, eager, variant).error


def _check(
    exam: Exam, candidate: Entrant, case: Case, findings: Findings, accepted: float
) -> Findings:
    """Before and after timing: what is timed must be right, and stay so. The larger error counts.

    Ends the case where its results are wrong, or eager's own are and nothing can be judged.
    """
    found = examination.examine(exam, candidate.built, case.variant, accepted)
    if findings.error is None or not found.error <= findings.error:  # nan is the larger one
        findings = replace(findings, error=found.error, error_place=found.place)
    _judge(findings, case, accepted)
    return _check_scaler(candidate.built, findings)


def _check_scaler(built: modes.Built, findings: Findings) -> Findings:
    """Ends the case where a step that overflows is not skipped, or another one is."""
    if built.trainer is None or built.trainer.scaler is None:
        return findings
    found = overflow.plant(built)
    scale = built.trainer.start.scale
    findings = replace(findings, loss_scale=scale, overflow_skipped=found.skipped)
    if found.reason:
        raise Ended("wrong_result", found.reason, findings)
    return findings


def _baseline(
    exam: Exam,
    subject: Subject,
    candidate: Entrant,
    case: Case,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> tuple[Entrant | None, Findings]:
    """The baseline after its first call; None where there is none, or where it is wrong itself.

    A baseline that compiles finds what the case left in the compiler's caches: its first call says
    nothing, and if it compiled nothing of its own, the case's graphs are its graphs.
    """
    if case.baseline is None:
        return None, findings
    baseline = enter(subject, case.baseline, case, device, plan)
    error = examination.examine(exam, baseline.built, case.baseline).error
    findings = replace(findings, baseline_error=error)
    if case.baseline.mode.compile == "none":
        findings = replace(findings, baseline_first_call_s=baseline.first_call_s)
    elif baseline.compiled.graphs == 0:
        baseline = replace(baseline, compiled=candidate.compiled)
    accepted = plan.max_error is not None and error <= plan.max_error
    if accepted or examination.eager_is_sane(case, error, case.baseline.dtype):
        return baseline, findings
    return None, flagged(findings, "baseline_wrong")


def _judge(findings: Findings, case: Case, accepted: float) -> None:
    """Ends the case where its error is more than `accepted`, or eager's own is and judges none."""
    error, eager, limit = findings.error, findings.eager_error, findings.error_limit
    assert error is not None
    assert eager is not None
    if limit == 0 and not eager <= accepted:
        raise Ended("wrong_result", accuracy.unjudged(eager, case.variant.dtype), findings)
    if not error <= accepted:
        reason = accuracy.too_large(
            error, findings.error_place, eager, case.variant.dtype, accepted
        )
        raise Ended("wrong_result", reason, findings)


def _prove(
    candidate: Entrant,
    baseline: Entrant | None,
    case: Case,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> Findings:
    """Did the mode take effect, and the baseline? There is no speedup against one that did not."""
    facts = candidate.facts(case, device, plan)
    doubts = evidence.doubts(facts)
    findings = replace(
        findings,
        graph_launches=facts.graph_launches,
        in_effect=doubts is None,
        in_effect_note=doubts or evidence.remark(facts),
    )
    if baseline is None or evidence.doubts(baseline.facts(case, device, plan)) is None:
        return findings
    without = replace(findings, baseline_latency_rounds_s=None, case_ran_first=None)
    return flagged(without, "baseline_not_in_effect")
