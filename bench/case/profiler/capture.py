"""Profiles a few steady steps after all timing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch._library.custom_ops import OPDEFS

from modescope.bench.case.profiler import facts, profiled_calls, traces
from modescope.bench.case.profiler.facts import StepFacts
from modescope.bench.case.profiler.operators import find_working
from modescope.bench.case.profiler.profile import Profile, find_typical
from modescope.bench.case.profiler.profiled_calls import ProfiledCalls
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records.files import temporary_folder
from modescope.bench.steps import compiler

KEPT_STEPS = 5  # in the trace's file: the typical one and its neighbours

MAX_BYTES = 5_000_000  # of a compressed trace

LOST_KERNELS = 100
"""Dummy kernels before the steps: in CUDA 12.6 to 13.0 the n-th profile of a process loses about
the first n kernels (github.com/pytorch/pytorch/issues/192021)."""

REROUTED = (
    "called through the C++ dispatcher while profiled, because torch {} may call them directly, "
    "which the profiler does not record: {}"
)


@contextmanager
def through_the_dispatcher() -> Iterator[frozenset[str]]:
    """Within it, every call of a custom_op goes through the C++ dispatcher, as up to torch 2.13.

    In later releases such a call from Python goes straight to its Python kernels ("PyObject
    dispatch", github.com/pytorch/pytorch/pull/187949). The profiler opens its records in the
    dispatcher, so it would show only the operators that these kernels call, and nothing of a kernel
    in C or NumPy. Yields the names (such as mylib::myadd) of the operators that would bypass the
    dispatcher. They compute the same; a call takes some microseconds more.
    """
    ops: list[Any] = [definition._opoverload for definition in list(OPDEFS.values())]
    bypassing = [op for op in ops if getattr(op, "_pyobj_dispatcher", None) is not None]
    for op in bypassing:
        op._enable_pyobj_dispatch(False)
    try:
        yield frozenset(op._schema.name for op in bypassing)
    finally:
        for op in bypassing:
            op._enable_pyobj_dispatch(True)


def capture(
    step: Step,
    device: Hardware,
    path: Path | None,
    expected_s: float,
    max_bytes: int = MAX_BYTES,
    settling_calls: int = 1,
) -> Profile:
    """Profiles a warm `step` that takes about `expected_s` when a caller waits for it.

    It is profiled in turns (`profiled_calls.take`). `settling_calls` come before; the first of them
    allocates the profiler's buffers. The trace is written to `path`, a .json.gz for Perfetto, with
    the typical step and as many of its neighbours as are kept and fit into `max_bytes`. May raise
    OSError.
    """
    profiling = torch.profiler.profile(activities=list(device.activities))
    without = _hide_inductor()
    with through_the_dispatcher() as rerouted, without, profiling as profiler:
        if device.queues:
            for _ in range(LOST_KERNELS):
                device.hold(0.0)
        for _ in range(settling_calls):  # outside of any range
            step()
            device.synchronize()
        taken = profiled_calls.take(step, device, expected_s)
    trace = _export(profiler)
    names = {e.name for e in traces.intervals(trace) if e.category in traces.OPERATIONS}
    steps = facts.read(trace, None if device.queues else find_working(names))
    place = find_typical(steps, taken)
    saved_steps = None
    if path:
        saved_steps = 0 if place is None else traces.save(trace, path, max_bytes, place, KEPT_STEPS)
    notes = list(_notes(steps, len(taken.latencies_s), saved_steps, max_bytes))
    if rerouted & names:
        notes.append(REROUTED.format(torch.__version__, ", ".join(sorted(rerouted & names))))
    return Profile(steps, taken, place, _overhead(taken, expected_s), saved_steps, tuple(notes))


def _hide_inductor() -> AbstractContextManager[object]:
    """Hides the lazy module `torch._inductor`, whose settings the profiler asks for if it exists.

    Where nothing has imported the compiler, that would import it, which takes seconds.
    """
    lazy = getattr(torch, "_lazy_modules", None)
    if lazy is None or compiler.is_imported():
        return nullcontext()
    return mock.patch.object(torch, "_lazy_modules", lazy - {"_inductor"})


def _overhead(taken: ProfiledCalls, expected_s: float) -> float | None:
    """The time of a profiled call over that of one that is not; medians. None if that is unknown.

    The other is the unrecorded call beside it; on a device that queues, `expected_s`.
    """
    if taken.unrecorded_s is not None:
        return float(median(map(truediv, taken.latencies_s, taken.unrecorded_s)))
    return median(taken.latencies_s) / expected_s if expected_s > 0 else None


def record_kernels(build: Callable[[], Step]) -> Step:
    """The step of `build`, compiled once more so that a CPU's fused kernels show in a profile.

    Inductor's C++ kernels are invisible unless each opens a profiler record, which changes the code
    that was timed. `build` must return an uncompiled step, which is called a few times here.
    Everything compiled in this process before is dropped, and compiles again if it is called.
    """
    from torch._inductor import config as inductor  # here, because it takes seconds

    torch.compiler.reset()
    with inductor.patch({"cpp.enable_kernel_profile": True}):
        step = build()
        for _ in range(3):
            step()
    return step


def _export(profiler: torch.profiler.profile) -> traces.Trace:
    with temporary_folder() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace: traces.Trace = json.loads(path.read_text(encoding="utf-8"))
    trace.pop("traceName", None)  # the temporary file's
    return trace


def _notes(
    steps: Sequence[StepFacts], count: int, saved: int | None, max_bytes: int
) -> Iterator[str]:
    if len(steps) < count:
        yield f"{len(steps)} of {count} profiled steps are in the trace"
    kept = min(len(steps), KEPT_STEPS)
    if saved is not None and saved < kept:
        yield f"{saved} of {kept} steps fit into a trace file of {max_bytes / 1e6:g} MB"
    for name in ("ops_top", "kernels", "launches", "graph_launches"):
        values = sorted({getattr(step, name) for step in steps})
        if len(values) > 1:
            yield f"{name} differs between steps: {', '.join(map(str, values))}"
