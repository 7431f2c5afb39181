"""Saves the compiled model of a case with `aot_compile`, in a process of its own."""

from __future__ import annotations

import traceback

from modescope.bench.case.torch_setup import set_up_torch
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import find
from modescope.bench.model import compiler, plain_call
from modescope.bench.modes import axes, modes, saved_functions
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import Progress, one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Findings, Result

SAVED = Result(Status.CACHE_FILLED, "the compiled model is saved", Findings())

NOT_SAVED = "torch cannot compile and save it (aot_compile): {}"


def save(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Saves the model of `case`; returns SAVED, or what the row says if that fails."""
    progress("aot_compile")
    device, phase = find(case.device), phase_of(case.options)
    compiler.import_it()  # first, as what is set up of it depends on whether it is there
    set_up_torch(case, plan)
    subject = phase.prepare(plain_call.build_drawn(case, device).subject, plan.seed)
    own = modes.prepare(subject, case.variant, phase)
    axes.switch(axes.switches(case), case.variant)

    def compile_and_save() -> None:
        mode, given = case.variant.mode, own.given
        saved_functions.save(own.module, given.args, given.kwargs, mode.compile_options)

    try:
        modes.enter_contexts(compile_and_save, case.variant, device.type)()
    except Exception as error:
        traceback.print_exc()
        status = Status.OOM if is_out_of_memory(error) else Status.FAILED
        return Result(status, NOT_SAVED.format(one_line(error)), Findings())
    return SAVED
