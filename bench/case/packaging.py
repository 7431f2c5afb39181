"""Builds the package of a case ahead of time, in a process of its own."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from torch.utils._pytree import tree_leaves

from modescope.bench.case.torch_setup import set_up_torch
from modescope.bench.devices.allocators import is_out_of_memory
from modescope.bench.devices.cuda import find
from modescope.bench.evidence.watching import watch_warnings
from modescope.bench.model import compiler, module_state, plain_call
from modescope.bench.model.subject import Subject
from modescope.bench.modes import axes, modes, packages
from modescope.bench.modes.packages import Record
from modescope.bench.modes.phases import phase_of
from modescope.bench.records.caches import SAVED
from modescope.bench.records.cases import Case
from modescope.bench.records.errors import Progress, one_line
from modescope.bench.records.outcomes import Status
from modescope.bench.records.plans import Plan
from modescope.bench.records.results import Ended, Findings, Result

CHANGES_STATE = (
    "forward changes {state}: a package changes its own copy of a buffer or drops the change, and "
    "the model would not have it after a call; use mode=compile"
)

NOT_EXPORTED = "torch.export fails: {}"
NOT_COMPILED = "what torch.export made cannot be compiled and packaged: {}"

PACKAGED = Result(Status.CACHE_FILLED, "the package is built", Findings())


def build(progress: Progress, case: Case, plan: Plan, run_id: str | None = None) -> Result:
    """Builds the package of `case` in the folder that the variable SAVED names.

    Returns PACKAGED; or what the row says if the model cannot be packaged. A model that fails in
    plain eager is left to the process that measures, which says so.
    """
    try:
        return _build(progress, case, plan, Path(os.environ[SAVED]))
    except Ended as ended:
        return ended.result
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return Result(Status.OOM, one_line(error), Findings())


def _build(progress: Progress, case: Case, plan: Plan, folder: Path) -> Result:
    progress("model to package")
    device = find(case.device)
    compiler.import_it()  # first, as what is set up of it depends on whether it is there
    set_up_torch(case, plan)
    phase = phase_of(case.options)
    try:
        drawn = plain_call.build_drawn(case, device)
        prepared = phase.prepare(drawn.subject, plan.seed)
        examined = plain_call.find_changes(prepared, drawn.to_call, phase.trains)
        subject, written = examined.subject, _written(examined.plain)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return PACKAGED
    if state := module_state.name_places(subject.state or written):
        raise Ended(Status.FAILED, CHANGES_STATE.format(state=state), Findings())
    own = modes.prepare(subject, case.variant, phase)
    axes.switch(axes.switches(case), case.variant)  # what the package runs is chosen here
    weights, given = packages.summed(own.module), own.given
    with watch_warnings() as warned:
        progress("export")
        start = time.perf_counter()
        with _blame(NOT_EXPORTED), ExitStack() as stack:
            for context in axes.contexts(case.variant, device.type):
                stack.enter_context(context())
            program = torch.export.export(own.module, given.args, given.kwargs)
        exported = time.perf_counter()
        progress("package")
        with _blame(NOT_COMPILED):
            path = str(folder / packages.PACKAGE)
            torch._inductor.aoti_compile_and_package(program, package_path=path)
        packaged = time.perf_counter()
    packages.write(
        Record(
            export_s=exported - start,
            build_s=packaged - exported,
            inputs=[packages.describe(leaf) for leaf in tree_leaves((given.args, given.kwargs))],
            weights=weights,
            weights_bytes=packages.weights_bytes(own.module),
            operators=packages.operators(folder / packages.PACKAGE),
            warnings=warned,
        ),
        folder,
    )
    return PACKAGED


def _written(plain: Subject) -> list[str]:
    """Calls the module; returns its buffers that this wrote to, if with what they held before."""
    buffers = {n: b for n, b in plain.module.named_buffers() if not b.is_inference()}
    before = {name: buffer._version for name, buffer in buffers.items()}
    plain_call.call_without_gradients(plain.call)
    return [name for name, buffer in buffers.items() if buffer._version != before[name]]


@contextmanager
def _blame(fails: str) -> Iterator[None]:
    """Turns an error of torch in the block into Ended, with its message in `fails`."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise
        traceback.print_exc()
        raise Ended(Status.FAILED, fails.format(one_line(error)), Findings()) from error
