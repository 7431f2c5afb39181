"""Profiles a few steady steps after all timing, in turns with calls that are not recorded.

The profiler runs throughout. Starting it empties the caches: the kernels of the first call after a
start took 10 % longer, those of the second 6 %. Recording is off during the calls in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import torch
from torch._C._autograd import _enable_record_function
from torch._C._profiler import _RecordFunctionFast
from torch._library.custom_ops import OPDEFS

from modescope.bench.devices.devices import Device, Hardware, Step, prepare_call
from modescope.bench.model import compiler
from modescope.bench.passes.profiler import facts, traces
from modescope.bench.passes.profiler.facts import StepFacts
from modescope.bench.passes.profiler.operators import IS_FUSED, find_working
from modescope.bench.passes.profiler.traces import STEP
from modescope.bench.records.files import temporary_folder
from modescope.bench.timing import pace

MOST_TURNS = 24  # as many as rounds of clocks with budget=quick
QUEUED_STEPS = 5  # of a device that queues work, whose calls between are not compared
LONGEST_S = 1.0  # of all turns; of slow steps there are fewer
CALLS_PER_TURN = 3  # one profiled, one untimed after the switch, one timed

KEPT_STEPS = 5  # in the trace's file: the typical one and its neighbours

MAX_BYTES = 5_000_000  # of a compressed trace

LOST_KERNELS = 100
"""Dummy kernels before the steps: in CUDA 12.6 to 13.0 the n-th profile of a process loses about
the first n kernels (github.com/pytorch/pytorch/issues/192021)."""

REROUTED = (
    "called through the C++ dispatcher while profiled, because torch {} may call them directly, "
    "which the profiler does not record: {}"
)


@dataclass(frozen=True)
class ProfiledCalls:
    """Times of each profiled call, in addition to the trace. All tuples have a value per call.

    `latencies_s`: the call itself, under the profiler. `paces_s`: a fixed piece of work that shows
    the speed of the machine. `unrecorded_s`: the same call while the profiler does not record. The
    latter two are timed before and after the profiled call, and a value is the mean of both. A
    device that queues work has no unrecorded calls.
    """

    latencies_s: tuple[float, ...]  # under the profiler
    paces_s: tuple[float, ...]  # beside it: mean of before and after (`bench.timing.pace`)
    unrecorded_s: tuple[float, ...] | None  # the same call beside it; None where the device queues


@dataclass(frozen=True)
class Profile:
    """What the profiler recorded of several steady steps, and which of them is typical.

    The n-th of `steps` belongs to the n-th of `calls` if the profile is `complete`. `place` is the
    index of the typical step in both. `saved_steps` is the number of steps in the file of the
    trace, `notes` say what is missing.
    """

    steps: tuple[StepFacts, ...]
    calls: ProfiledCalls  # beside each of the steps
    place: int | None  # of the typical step in both; None without any step
    overhead: float | None  # median latency under the profiler ÷ without it
    saved_steps: int | None  # in the file; None without a path
    notes: tuple[str, ...]

    @property
    def typical(self) -> StepFacts | None:
        """The typical step, which all reported facts describe. None without any step."""
        return None if self.place is None else self.steps[self.place]

    @property
    def complete(self) -> bool:
        """Whether the trace has every call, so that the n-th step belongs to the n-th call."""
        return len(self.steps) == len(self.calls.latencies_s)


def find_typical(steps: Sequence[StepFacts], calls: ProfiledCalls) -> int | None:
    """Returns the index of the step with the median span. None without steps.

    Each span is first divided by the time of the unrecorded calls beside it. On a device that
    queues work it is divided by the pace: the time of a fixed piece of work beside the step. Spans
    of an incomplete trace are compared undivided.
    """
    beside_s: Sequence[float] = [1.0] * len(steps)
    if len(steps) == len(calls.latencies_s):
        beside_s = calls.paces_s if calls.unrecorded_s is None else calls.unrecorded_s
    spans = [step.span_s / each_s for step, each_s in zip(steps, beside_s, strict=True)]
    in_order = sorted(range(len(steps)), key=spans.__getitem__)
    return in_order[(len(in_order) - 1) // 2] if in_order else None


@contextmanager
def through_the_dispatcher() -> Iterator[frozenset[str]]:
    """Routes calls of custom_ops in the block through the C++ dispatcher, as up to torch 2.13.

    In later releases such a call from Python goes straight to its Python kernels ("PyObject
    dispatch", github.com/pytorch/pytorch/pull/187949). The profiler opens its records in the
    dispatcher, so it would show only the operators that these kernels call, and nothing of a kernel
    in C or NumPy. Yields the names (such as mylib::myadd) of the operators that would bypass the
    dispatcher. Their results are the same, but a call takes some microseconds more.
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
    """Profiles a warm `step`, in turns with calls that are not recorded (`profile_calls`).

    `expected_s` is its approximate latency. `settling_calls` calls come first and are no part of
    the result; the first of them allocates the profiler's buffers. The trace is written to `path`
    (None: to no file), a .json.gz for Perfetto: the typical step and at most KEPT_STEPS - 1
    neighbours, as far as they fit into `max_bytes`. May raise OSError.
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
        taken = profile_calls(step, device, expected_s)
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


def profile_calls(step: Step, device: Device, expected_s: float) -> ProfiledCalls:
    """Profiles `step` several times, fewer if `expected_s` per call is long (0.0: unknown).

    Call it while a profiler runs. Each profiled call is a range called `STEP`, is waited for, and
    stands between two calls that are not recorded. On a device that queues work there are no
    unrecorded calls, because the tracer of that work cannot be switched off in between.
    """
    latencies_s, paces_s, alone_s = list[float](), list[float](), list[float]()

    def look_beside() -> None:
        paces_s.append(median(pace.time_of(pace.work, device, pace.CALLS).samples_s))
        if not device.queues:
            alone_s.append(_time_unrecorded(step, device))

    most, calls = (QUEUED_STEPS, 1) if device.queues else (MOST_TURNS, CALLS_PER_TURN)
    turns = max(1, min(most, int(LONGEST_S / (calls * expected_s)))) if expected_s > 0 else most
    look_beside()
    for _ in range(turns):
        latencies_s.append(_time_in_range(step, device))
        look_beside()
    return ProfiledCalls(tuple(latencies_s), _means(paces_s), _means(alone_s) or None)


def _time_unrecorded(step: Step, device: Device) -> float:
    """Returns the seconds of a call that the running profiler neither records nor slows down."""
    _enable_record_function(False)
    try:
        step()
        call = prepare_call(step)
        start = device.clock()
        call()
        return device.clock() - start
    finally:
        _enable_record_function(True)


def _time_in_range(step: Step, device: Device) -> float:
    call = prepare_call(step)
    device.synchronize()
    start = device.clock()
    with torch.profiler.record_function(STEP):
        call()
    device.synchronize()
    return device.clock() - start


def _means(values: Sequence[float]) -> tuple[float, ...]:
    return tuple((before + after) / 2 for before, after in pairwise(values))


def _hide_inductor() -> AbstractContextManager[object]:
    """Hides the lazy module `torch._inductor`, whose settings the profiler reads if it exists.

    If nothing has imported the compiler before, reading them would import it, which takes seconds.
    """
    lazy = getattr(torch, "_lazy_modules", None)
    if lazy is None or compiler.is_imported():
        return nullcontext()
    return mock.patch.object(torch, "_lazy_modules", lazy - {"_inductor"})


def _overhead(taken: ProfiledCalls, expected_s: float) -> float | None:
    """Returns the time of a profiled call ÷ the time of an unprofiled call. None if unknown.

    The unprofiled call is an unrecorded one beside it. On a device that queues work, `expected_s`
    takes its place.
    """
    if taken.unrecorded_s is not None:
        return float(median(map(truediv, taken.latencies_s, taken.unrecorded_s)))
    return median(taken.latencies_s) / expected_s if expected_s > 0 else None


@contextmanager
def kernels_recorded() -> Iterator[set[str]]:
    """Opens a record of the profiler around each call of a C++ kernel of Inductor in the block.

    Yields a set that names the kernels that were called so far. They are those that Python calls,
    in all code that this process has compiled: not in code with Inductor's option `cpp_wrapper`.
    Inductor itself can open such records (`cpp.enable_kernel_profile`), but only in code that is
    compiled for it.
    """
    from torch._inductor.codecache import PyCodeCache  # here, because it takes seconds

    called = set[str]()
    with ExitStack() as stack:
        found = [
            (module, name)
            for module in PyCodeCache.modules
            for name, kernel in vars(module).items()
            if IS_FUSED(name) and callable(kernel)
        ]
        for module, name in found:
            recorded = _recorded(name, getattr(module, name), called)
            stack.enter_context(mock.patch.object(module, name, recorded))
        yield called


def _recorded(name: str, kernel: Callable[..., object], called: set[str]) -> Callable[..., object]:
    record = _RecordFunctionFast(name)  # which the profiler shows as an operator

    def call(*arguments: object) -> object:
        called.add(name)
        with record:
            return kernel(*arguments)

    return call


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
