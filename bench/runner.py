"""Case -> Result, in the process started for it: the one place where the parts meet."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from bench import accuracy, clocks, empty, evidence, modes
from bench.devices import Hardware, find
from bench.isolation import Progress, one_line
from bench.records import Case, Findings, Plan, Result, Variant
from bench.rounds import Rounds, paired, warm_up
from bench.subject import Subject, build, state_kept
from bench.timers import reading_cost, resolution, synchronize_cost

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


class _Ended(Exception):
    """The case ends here with another status than ok."""

    def __init__(self, status: str, reason: str, findings: Findings) -> None:
        self.result = Result(status, reason, findings)


def run(progress: Progress, case: Case, plan: Plan) -> Result:
    """Measures `case` as `plan` says; what the case itself gets wrong becomes status and reason.

    Any other exception passes through: UsageError is the user's to mend, the rest is recorded by
    who started this process.
    """
    try:
        return _measure(progress, case, plan)
    except _Ended as ended:
        return ended.result
    except FailOnRecompileLimitHit:
        return Result("failed", GAVE_UP, Findings())
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        return Result("oom", one_line(error), Findings())


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(text in str(error) for text in OUT_OF_MEMORY)


def _measure(progress: Progress, case: Case, plan: Plan) -> Result:
    device = find(case.device)
    _settle(case, plan)
    progress("reference")
    subject = build(case.model, case.shape).to(device.torch_device)
    exam = accuracy.prepare(subject, plan.seed)
    findings = _calibrate(device)
    if exam.unfit:
        raise _Ended("failed", exam.unfit, findings)

    progress("first call")
    candidate, compiled, findings = _candidate(exam, subject, case, device, findings)
    progress("check")
    seen = evidence.observe(candidate, device)
    findings = _check(exam, candidate, case, findings)
    progress("baseline")
    baseline, findings = _baseline(exam, subject, case, device, findings)
    del subject  # from here on only what is timed takes memory, and what it is checked against

    with state_kept(candidate.subject.module):  # a model that counts its calls ends as it began
        findings = _time(progress, candidate, baseline, device, plan, findings)
        findings = _read_clocks(progress, candidate, case, device, plan, findings)
    progress("check again")
    findings = _check(exam, candidate, case, findings)
    progress("evidence")
    launches = evidence.graph_launches(candidate.step, device)
    facts = evidence.Facts(
        case.variant, case.model.fullgraph, device.type, seen, compiled, launches
    )
    doubts = evidence.doubts(facts)
    findings = replace(
        findings,
        graph_launches=launches,
        seen_grad=seen.grad,
        seen_autocast=seen.autocast,
        seen_weight_dtype=seen.weight_dtype,
        in_effect=doubts is None,
        in_effect_note=doubts or evidence.remark(facts),
    )
    return Result("ok", None, findings)


def _settle(case: Case, plan: Plan) -> None:
    """Everything global that a measurement depends on, set in one place."""
    torch.set_num_threads(case.threads)
    torch.set_float32_matmul_precision(modes.MATMUL_PRECISION.get(case.variant.dtype, "highest"))
    torch.manual_seed(plan.seed)
    torch._dynamo.config.fail_on_recompile_limit_hit = True  # instead of eager without a word


def _calibrate(device: Hardware) -> Findings:
    return Findings(
        matmul_precision=torch.get_float32_matmul_precision(),
        timer_resolution_s=resolution(device.clock),
        timer_cost_s=reading_cost(device.clock),
        synchronize_s=synchronize_cost(device),
    )


def _candidate(
    exam: accuracy.Exam, subject: Subject, case: Case, device: Hardware, findings: Findings
) -> tuple[modes.Built, evidence.Compiled, Findings]:
    """The case's variant after its first call, and what the compiler did for it."""
    eager_error = _eager_error(exam, subject, case, device)
    before = evidence.compiled_so_far()
    candidate, first_call_s = _first_call(subject, case.variant, case, device)
    compiled = evidence.compiled_so_far().since(before)
    findings = replace(
        findings,
        eager_error=eager_error,
        error_limit=accuracy.accepted_error(eager_error, case.variant.dtype),
        first_call_s=first_call_s,
        graphs=compiled.graphs,
        graph_breaks=compiled.breaks,
        autotuned=compiled.autotuned,
    )
    return candidate, compiled, findings


def _eager_error(exam: accuracy.Exam, subject: Subject, case: Case, device: Hardware) -> float:
    """Error of plain eager that reaches the case's dtype in the case's way."""
    mode = replace(case.variant.mode, compile="none", graph=False)
    variant = replace(case.variant, mode=mode)
    eager = modes.build(
        subject.cast(modes.weight_dtype(variant)), variant, case.model.fullgraph, device
    )
    return accuracy.examine(exam, eager.subject, eager.step)


def _check(exam: accuracy.Exam, candidate: modes.Built, case: Case, findings: Findings) -> Findings:
    """Before and after timing: what is timed must be right, and stay so. The larger error counts.

    Ends the case where its results are wrong, or eager's own are and nothing can be judged.
    """
    error = accuracy.examine(exam, candidate.subject, candidate.step)
    if findings.error is None or not error <= findings.error:  # nan is the larger one
        findings = replace(findings, error=error)
    _judge(findings, case)
    return findings


def _baseline(
    exam: accuracy.Exam, subject: Subject, case: Case, device: Hardware, findings: Findings
) -> tuple[modes.Built | None, Findings]:
    """The baseline after its first call; None where there is none, or where it is wrong itself."""
    if case.baseline is None:
        return None, findings
    baseline, first_call_s = _first_call(subject, case.baseline, case, device)
    error = accuracy.examine(exam, baseline.subject, baseline.step)
    findings = replace(findings, baseline_first_call_s=first_call_s, baseline_error=error)
    if accuracy.eager_is_sane(error, case.baseline.dtype):
        return baseline, findings
    return None, replace(findings, flags=(*findings.flags, "baseline_wrong"))


def _first_call(
    subject: Subject, variant: Variant, case: Case, device: Hardware
) -> tuple[modes.Built, float]:
    """The variant on its own copy of `subject`, and how long its first call took.

    Copying and casting weights come before; compiling, autotuning and capturing are included. The
    module's buffers stay as they were, for the check that follows.
    """
    own = subject.cast(modes.weight_dtype(variant))
    with state_kept(own.module):
        device.synchronize()
        start = device.clock()
        built = modes.build(own, variant, case.model.fullgraph, device)
        built.step()
        device.synchronize()
        first_call_s = device.clock() - start
    return built, first_call_s


def _judge(findings: Findings, case: Case) -> None:
    dtype = case.variant.dtype
    error, eager, limit = findings.error, findings.eager_error, findings.error_limit
    assert error is not None
    assert eager is not None
    assert limit is not None
    if not accuracy.eager_is_sane(eager, dtype):
        reason = (
            f"even eager at {dtype} has a relative error of {eager:.2g} against float64, so no "
            "mode can be judged at this dtype"
        )
        raise _Ended("wrong_result", reason, findings)
    if not error <= limit:
        reason = (
            f"relative error {error:.2g} against float64, accepted is {limit:.2g} (eager at "
            f"{dtype} has {eager:.2g})"
        )
        raise _Ended("wrong_result", reason, findings)


def _time(
    progress: Progress,
    candidate: modes.Built,
    baseline: modes.Built | None,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> Findings:
    steps = [built.step for built in (candidate, baseline) if built]
    progress("warm-up")
    warmth = warm_up(steps, device, plan.budget)
    progress("timing")
    before = evidence.compiled_so_far()
    rounds = paired(
        candidate.step,
        baseline.step if baseline else None,
        device,
        plan.budget,
        plan.seed + plan.replicate,
        warmth.per_call_s,
    )
    recompiles = evidence.compiled_so_far().since(before).compilations
    findings = _with_rounds(findings, rounds)
    findings = replace(findings, warmup_s=warmth.seconds, recompiles=recompiles)
    if not warmth.steady:
        findings = replace(findings, flags=(*findings.flags, "no_steady_state"))
    if recompiles:
        reason = f"torch compiled {recompiles} more time(s) while the case was timed"
        raise _Ended("failed", reason, findings)
    return findings


def _read_clocks(
    progress: Progress,
    candidate: modes.Built,
    case: Case,
    device: Hardware,
    plan: Plan,
    findings: Findings,
) -> Findings:
    progress("clocks")
    start = device.clock()
    assert findings.latency_rounds_s
    expected_s = median(findings.latency_rounds_s)
    read = clocks.read(candidate.step, device, plan.budget, plan.seed, expected_s)
    progress("dispatch")
    dispatch = empty.dispatch(candidate.subject, case.variant, case.model, device, plan.budget)
    return replace(
        findings,
        host_rounds_s=read.host_s,
        pipelined_rounds_s=read.pipelined_s,
        device_rounds_s=read.device_s,
        device_note=read.device_note,
        dispatch_rounds_s=dispatch.samples_s or None,
        dispatch_note=dispatch.reason,
        clocks_s=device.clock() - start,
    )


def _with_rounds(findings: Findings, rounds: Rounds) -> Findings:
    return replace(
        findings,
        timed_s=rounds.seconds,
        calls_per_round=rounds.calls_per_round,
        latency_rounds_s=rounds.case_s,
        baseline_latency_rounds_s=rounds.baseline_s,
        case_ran_first=rounds.case_first,
        latency_calls_s=rounds.calls_s,
    )
