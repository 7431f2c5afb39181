"""Profiles a few steady steps after all timing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from unittest import mock

import torch

from modescope.bench.case.profiler import events, facts, files
from modescope.bench.case.profiler.bypassing import through_the_dispatcher
from modescope.bench.case.profiler.facts import WORKING_OPERATORS, TraceFacts
from modescope.bench.case.profiler.operators import working
from modescope.bench.case.profiler.profile import Profile
from modescope.bench.case.profiler.steps import STEP
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records import leftovers
from modescope.bench.steps import compiler
from modescope.bench.timing import pace

STEPS = 5  # enough for a median
LONGEST_S = 2.0  # of all profiled steps; of slow steps there are fewer
MAX_BYTES = 5_000_000  # of a compressed trace

LOST_KERNELS = 100
"""Dummy kernels before the steps: in CUDA 12.6 to 13.0 the n-th profile of a process loses about
the first n kernels (github.com/pytorch/pytorch/issues/192021)."""

REROUTED = (
    "called through the C++ dispatcher while profiled, because torch {} may call them directly, "
    "which the profiler does not record: {}"
)


def capture(
    step: Step,
    device: Hardware,
    path: Path | None,
    expected_s: float,
    max_bytes: int = MAX_BYTES,
    settling_calls: int = 1,
    expected_pace_s: float | None = None,
) -> Profile:
    """Profiles a warm `step` that takes about `expected_s` when a caller waits for it.

    `expected_pace_s`: the pace at which it took so long; None: unknown, taken as constant.

    Each profiled step is a range called `STEP` and is waited for. `settling_calls` come before; the
    first of them allocates the profiler's buffers. The trace is written to `path`, a .json.gz for
    Perfetto or `facts.read`, with as many steps as fit into `max_bytes`. May raise OSError.
    """
    count = max(1, min(STEPS, int(LONGEST_S / expected_s))) if expected_s > 0 else STEPS
    profiling = torch.profiler.profile(activities=list(device.activities))
    without = _without_importing_inductor()
    with through_the_dispatcher() as rerouted, without, profiling as profiler:
        if device.queues:
            for _ in range(LOST_KERNELS):
                device.hold(0.0)
        for _ in range(settling_calls):  # outside of any range
            step()
            device.synchronize()
        before_s = _pace(device)
        latencies_s, paces_s = [], []
        for _ in range(count):
            latencies_s.append(_ranged(step, device))
            after_s = _pace(device)
            paces_s.append((before_s + after_s) / 2)
            before_s = after_s
    trace = _exported(profiler)
    intervals, _ = events.intervals(trace)
    names = {each.name for each in intervals if each.category in events.OPERATIONS}
    if not device.queues:
        trace[WORKING_OPERATORS] = working(names)
    read = facts.read(trace)
    saved_steps = files.save(trace, path, max_bytes) if path else None
    overhead = _overhead(latencies_s, paces_s, expected_s, expected_pace_s)
    notes = _notes(read, count, saved_steps, max_bytes)
    if rerouted & names:
        notes.append(REROUTED.format(torch.__version__, ", ".join(sorted(rerouted & names))))
    return Profile(read, tuple(paces_s), overhead, saved_steps, tuple(notes))


def _without_importing_inductor() -> AbstractContextManager[object]:
    """Hides the lazy module `torch._inductor`, whose settings the profiler asks for if it exists.

    Where nothing has imported the compiler, that would import it, which takes seconds.
    """
    lazy = getattr(torch, "_lazy_modules", None)
    if lazy is None or compiler.is_imported():
        return nullcontext()
    return mock.patch.object(torch, "_lazy_modules", lazy - {"_inductor"})


def _pace(device: Hardware) -> float:
    return median(pace.time_of(pace.work, device, pace.CALLS).samples_s)


def _overhead(
    latencies_s: Sequence[float],
    paces_s: Sequence[float],
    expected_s: float,
    expected_pace_s: float | None,
) -> float | None:
    if expected_s <= 0:
        return None
    if expected_pace_s is None:
        return median(latencies_s) / expected_s
    at_pace = [latency_s / pace_s for latency_s, pace_s in zip(latencies_s, paces_s, strict=True)]
    return median(at_pace) * expected_pace_s / expected_s


def with_kernel_events(build: Callable[[], Step], calls: int = 3) -> Step:
    """The step of `build`, compiled once more so that a CPU's fused kernels show in a profile.

    Inductor's C++ kernels are invisible unless each opens a profiler record, which changes the code
    that was timed. `build` must return an uncompiled step, which is called `calls` times here.
    Everything compiled in this process before is dropped, and compiles again if it is called.
    """
    from torch._inductor import config as inductor  # here, because it takes seconds

    torch.compiler.reset()
    with inductor.patch({"cpp.enable_kernel_profile": True}):
        step = build()
        for _ in range(calls):
            step()
    return step


def _ranged(step: Step, device: Hardware) -> float:
    start = device.clock()
    with torch.profiler.record_function(STEP):
        step()
    device.synchronize()
    return device.clock() - start


def _exported(profiler: torch.profiler.profile) -> events.Trace:
    with leftovers.scratch() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = events.load(path)
    trace.pop("traceName", None)  # the temporary file's
    return trace


def _notes(trace: TraceFacts, count: int, saved: int | None, max_bytes: int) -> list[str]:
    steps, notes = len(trace.steps), []
    if steps < count:
        notes.append(f"{steps} of {count} profiled steps are in the trace")
    if saved is not None and saved < steps:
        held = f"{saved} of {steps} steps fit" if saved else "not even one step fits"
        notes.append(f"{held} into a trace file of {max_bytes / 1e6:g} MB")
    for name in ("ops_top", "kernels", "launches", "graph_launches"):
        values = sorted({getattr(step, name) for step in trace.steps})
        if len(values) > 1:
            notes.append(f"{name} differs between steps: {', '.join(map(str, values))}")
    return notes
