"""Examines a model in plain eager, before any mode is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from modescope.bench.case.blame import blame, blame_gradients
from modescope.bench.checking import steady_work
from modescope.bench.checking.prepare import check_for
from modescope.bench.checking.random_judge import Judge, judge_of
from modescope.bench.devices.devices import Hardware
from modescope.bench.evidence import compiler_counts
from modescope.bench.model import (
    compiler,
    copies,
    module_state,
    plain_call,
    torch_settings,
    witness,
)
from modescope.bench.model.subject import Subject
from modescope.bench.modes import axes, backends, fp32_products, regions
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case
from modescope.bench.records.columns.checks import Checks
from modescope.bench.records.columns.timing import Calibration
from modescope.bench.records.errors import Progress
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings
from modescope.bench.timing.timers import synchronize_cost

EAGER_FAILS = "the model fails in plain eager, before any mode is tried"

OTHER_COPY = (
    "a copy of the model does something else than the model itself ({fault}), and modescope needs "
    "several of it in one process; build a new module in each call of the builder"
)

REACHED = (
    "a module that the builder made uses {place} of another one that it made, through a closure, a "
    "weak reference or a table of the process; modescope needs several copies of the model in one "
    "process (the mode, its baseline, a reference), so let each find its own parts"
)


@dataclass(frozen=True)
class Examined:
    """The model as plain eager showed it, before any mode is tried."""

    subject: Subject
    judge: Judge
    work: steady_work.WorkOfNewCall | None
    settings: Mapping[str, Any]  # torch's, before the model was built
    put_back: tuple[str, ...]  # names of those that building the model changed
    findings: Findings


def examine(progress: Progress, case: Case, device: Hardware, plan: Plan) -> Examined:
    """Builds the model, calls it in plain eager, and finds out how its results can be judged.

    Raises Ended if it fails in eager, or if several copies of it cannot be measured.
    """
    progress("reference")
    phase, settings = phase_of(case.options), torch_settings.read()
    precision = settings["matmul precision"]
    if case.alternates:  # the steps change these themselves
        settings |= dict.fromkeys(fp32_products.SETTINGS)
    drawn = plain_call.build_drawn(case, device)
    subject = drawn.subject
    in_blocks = any(regions.are_asked(variant.mode) for variant in case.variants)
    if in_blocks and not regions.find(subject.module):
        raise Ended(Status.SKIPPED, regions.NO_BLOCKS, Findings())
    put_back, compiled = subject.put_back, compiler_counts.read_compiled()
    was_set = ", ".join(put_back)  # which the model may need
    after = f", after what its builder set was put back ({was_set})" if put_back else ""
    misuse = plain_call.find_misuse(subject)
    with blame(f"{EAGER_FAILS}{after}", case, Findings(), misuse):
        if subject.again is None and (fault := witness.find_fault(subject, drawn.to_call)):
            raise Ended(Status.FAILED, OTHER_COPY.format(fault=fault), Findings())
        subject = replace(phase.prepare(subject, plan.seed), switches=axes.switches(case))
        examined = plain_call.find_changes(subject, drawn.to_call, phase.trains)
        subject = examined.subject
        checks = Checks(
            named_inputs=bool(subject.inputs.kwargs) or None,
            changed_arguments=", ".join(subject.changes) or None,
            changed_state=module_state.name_places(subject.state),
            state_left=module_state.name_places(examined.left),
            dtypes_kept=", ".join(_kept_dtypes(subject)) or None,
        )
        findings = Findings(checks)
        reached = copies.Reached(subject.module)
        work = steady_work.work_of_new_call(examined.plain, findings, reached)
        if reached.place:
            raise Ended(Status.FAILED, REACHED.format(place=reached.place), findings)
        del drawn, examined, reached
        with fp32_products.exact():  # or the model in float64 would seem to be another one
            check = check_for(phase, subject, device, plan.seed)
    if work and not work.operators and check.seen.depends:
        raise Ended(Status.FAILED, steady_work.REMEMBERED, findings)
    findings = replace(
        findings,
        checks=replace(checks, matmul_precision=precision, unchecked_outputs=check.unchecked),
        calibration=Calibration(synchronize_cost(device)),
    )
    if check.unfit:
        raise Ended(Status.FAILED, check.unfit, findings)

    compiles = any(backends.needs_compiler(variant.mode) for variant in case.variants)
    if compiles or case.options.compiles or compiler.is_imported():  # as the model may have done
        compiler.import_it()  # not in the first call, whose time is measured
        # Past the limit torch would silently run eager: an error here, but not of calls that vary,
        # whose row says so, nor beside suppress_errors, with which torch refuses this setting.
        silent = bool(subject.order) or torch._dynamo.config.suppress_errors
        torch._dynamo.config.fail_on_recompile_limit_hit = not silent
    progress("first call")
    subject = replace(subject, random=check.seen.random)
    with blame_gradients(subject, case.variant, findings):
        judge = judge_of(check, subject, case, plan, device)
    own_graphs = compiler_counts.read_compiled().since(compiled).graphs  # only eager ran so far
    own = replace(findings.models_own, own_graphs=own_graphs or None)
    findings = replace(judge.columns(findings), models_own=own)
    put_back += torch_settings.put_back(settings)
    return Examined(subject, judge, work, settings, put_back, findings)


def _kept_dtypes(subject: Subject) -> list[str]:
    kept = (t.dtype for t in subject.tensors() if t.is_floating_point() or t.is_complex())
    return sorted({str(dtype).removeprefix("torch.") for dtype in kept if dtype != torch.float32})
