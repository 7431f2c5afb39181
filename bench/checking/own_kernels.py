"""Checks of kernels of the user's own, beside that of a row's results (`bench.modes.kernels`).

One is whether an implementation overwrites an argument that the model leaves alone. The other is of
rows in lower precisions, whose rounding hides faults of a few elements: fp32 shows them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from modescope.bench.checking import exact_judge, examination
from modescope.bench.checking.exact_judge import ExactJudge
from modescope.bench.checking.random_judge import Judge
from modescope.bench.devices.devices import Hardware
from modescope.bench.model import arguments
from modescope.bench.model.plain_call import LONGEST_ERROR
from modescope.bench.model.subject import Subject
from modescope.bench.modes import fp32_products, modes
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import KERNELS, Case, Mode, Variant
from modescope.bench.records.errors import one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings
from modescope.bench.records.tolerances import TOLERANCE

OVERWRITES = (
    "kernels={name} changes the argument {place}, which the model leaves as it is, so the caller's "
    "data would be another after each call; write to a new tensor instead"
)

IN_FP32 = (
    "kernels={name} is wrong in fp32, where rounding hides less than at {dtype}: {reason}; if it "
    "is to compute at {dtype} alone, let it refuse fp32"
)

ONLY_AT_DTYPE = "kernels={name} was checked at {dtype} alone, as in fp32 {why}"
FAILS, NARROW, EAGER_OFF = "it fails ({})", "it computes in {}", "eager is off, too"


def check_arguments(subject: Subject, case: Case, device: Hardware, findings: Findings) -> None:
    """Raises Ended if the case's implementation changes an argument that the model does not.

    It is called once in eager, at each size, with the case's dtype and autocast.
    """
    variant = replace(case.variant, mode=case.variant.mode.eager_mode())
    own = modes.prepare(subject, variant, phase_of(case.options))
    for part in own.parts.values() or [own]:
        find = partial(arguments.find_changes, part)
        found: Any = modes.enter_contexts(find, variant, device.type)()
        if changed := [place for place in found if place not in subject.changes]:
            reason = OVERWRITES.format(name=variant.mode.kernels, place=changed[0])
            raise Ended(Status.WRONG_RESULT, reason, findings)


def check_in_fp32(
    judge: Judge, subject: Subject, case: Case, plan: Plan, device: Hardware, findings: Findings
) -> None:
    """Checks the case's implementation in fp32, in eager, as a row in fp32 is checked.

    Does nothing if the case is in fp32 itself, or if its results are not compared with float64.
    Raises Ended if the results are wrong. An implementation that fails in fp32, or whose operators
    return half precision there, is left with the check at the case's dtype, and `judge` notes this.
    """
    dtype, mode = case.variant.dtype, case.variant.mode
    if dtype == "fp32" or not isinstance(judge, ExactJudge) or judge.eager is None:
        return
    own = Mode(mode.name, mode.grad, axes=tuple(axis for axis in mode.axes if axis[0] == KERNELS))
    wide = replace(case, variant=Variant(own, "fp32"))
    name = own.kernels
    try:
        with fp32_products.exact():
            why = _fault_in_fp32(judge, subject, wide, plan, device)
    except Ended as ended:
        reason = IN_FP32.format(name=name, dtype=dtype, reason=ended.result.reason)
        raise Ended(Status.WRONG_RESULT, reason, findings) from None
    except Exception as error:  # also of memory, which the row itself may not lack
        why = FAILS.format(one_line(error, LONGEST_ERROR))
    if why:
        judge.note = ONLY_AT_DTYPE.format(name=name, dtype=dtype, why=why)


def _fault_in_fp32(
    judge: ExactJudge, subject: Subject, wide: Case, plan: Plan, device: Hardware
) -> str | None:
    """Raises Ended if the implementation of `wide` is wrong; returns why it cannot be judged."""
    built = exact_judge.in_eager(subject, wide, wide.variant.mode, device)
    with built.keep_state():
        computed = examination.precision(built.step, built.subject.tensors())
    if computed != "fp32":
        return NARROW.format(computed)
    in_fp32 = exact_judge.judge(judge.check, subject, wide, plan, device)
    if in_fp32.limit != exact_judge.NOTHING:
        if device.type == "cuda":  # where kernels may multiply fp32 in tf32, as Triton's do
            least, known = TOLERANCE["tf32"], in_fp32.limit
            error, scale = max(known.error, least), max(known.scale, least)
            in_fp32.limit = replace(known, error=error, scale=scale)
        try:
            in_fp32.judge(built, Findings())
        except Ended:
            if in_fp32.limit != exact_judge.NOTHING:
                raise
    return EAGER_OFF if in_fp32.limit == exact_judge.NOTHING else None
