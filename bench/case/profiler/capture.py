"""Profiles a few steady steps after all timing, and checks the profile for contradictions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from unittest import mock

import torch

from modescope.bench.case.profiler import events, facts, files
from modescope.bench.case.profiler.bypassing import through_the_dispatcher
from modescope.bench.case.profiler.facts import WORKING_OPERATORS, StepFacts, TraceFacts
from modescope.bench.case.profiler.operators import working
from modescope.bench.case.profiler.steps import STEP
from modescope.bench.devices.devices import Hardware, Step
from modescope.bench.records import leftovers
from modescope.bench.records.columns import Profiled
from modescope.bench.steps import compiler
from modescope.bench.timing import pace

STEPS = 5  # enough for a median
LONGEST_S = 2.0  # of all profiled steps; of slow steps there are fewer
MAX_BYTES = 5_000_000  # of a compressed trace

LOST_KERNELS = 100
"""Dummy kernels before the steps: in CUDA 12.6 to 13.0 the n-th profile of a process loses about
the first n kernels (github.com/pytorch/pytorch/issues/192021)."""

RELATIVE_TOLERANCE = 0.15
KERNEL_GAP_S, REPLAY_GAP_S = 2e-6, 1e-6
"""Idle time of the device between two kernels that are queued back to back, or in a replayed graph.
Device time includes these gaps, busy time does not."""

LARGEST_PAUSES = 0.5
"""Largest share of a device time that gaps may explain, so that missing kernels are noticed even
where kernels are as short as their gaps."""

REROUTED = (
    "called through the C++ dispatcher while profiled, because torch {} may call them directly, "
    "which the profiler does not record: {}"
)


@dataclass(frozen=True)
class Profile:
    """The profiler's record of steady steps."""

    trace: TraceFacts
    paces_s: tuple[float, ...]  # beside each of its steps (`bench.timing.pace`); or none
    overhead: float | None  # median latency under the profiler ÷ without it, at equal pace
    saved_steps: int | None  # in the file; None without a path
    notes: tuple[str, ...]

    @property
    def typical(self) -> StepFacts | None:
        """The step with the median span at equal pace; all facts are of this one step."""
        return None if self._typical is None else self.trace.steps[self._typical]

    @property
    def typical_pace_s(self) -> float | None:
        """The pace of the machine beside that step."""
        known = self._typical is not None and len(self.paces_s) == len(self.trace.steps)
        return self.paces_s[self._typical] if known and self._typical is not None else None

    @property
    def _typical(self) -> int | None:
        steps = self.trace.steps
        known = len(self.paces_s) == len(steps)
        spans = [
            step.span_s / (self.paces_s[place] if known else 1.0)
            for place, step in enumerate(steps)
        ]
        in_order = sorted(range(len(steps)), key=spans.__getitem__)
        return in_order[(len(in_order) - 1) // 2] if in_order else None


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


def columns(profile: Profile, launches: bool, trace: str | None = None) -> Profiled:
    """The typical step of `profile` as columns; null where it has no step.

    launches: whether work is launched on the device; a CPU has no launches to count.
    trace: name of the file, if one was requested.
    """
    step = profile.typical
    note = "; ".join(profile.notes) or None
    if step is None:
        return Profiled(profiler_overhead=profile.overhead, profile_note=note)
    delays_s = step.launch_delays_s
    return Profiled(
        ops_dispatched=step.ops_top,
        ops_leaf=step.ops_leaf,
        leaf_ops_s=step.leaf_ops_s,
        kernels=step.kernels,
        kernels_s=step.kernels_s,
        launches=step.launches if launches else None,
        copies=step.copies if launches else None,
        fills=step.fills if launches else None,
        device_busy_s=step.busy_s,
        profiled_pace_s=profile.typical_pace_s,
        profiled_span_s=step.span_s,
        launch_delay_s=median(delays_s) if launches and delays_s else None,
        heaviest_kernels=json.dumps([asdict(each) for each in step.heaviest_kernels]),
        heaviest_ops=json.dumps([asdict(each) for each in step.heaviest_ops]),
        profiler_overhead=profile.overhead,
        profile_note=note,
        trace=trace if profile.saved_steps else None,
    )


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


ProfileCheck = tuple[str, Callable[[Profile, StepFacts, float | None], bool]]

CHECKS: tuple[ProfileCheck, ...] = (
    ("profile_busy_exceeds_span", lambda profile, step, device_s: step.busy_s > step.span_s),
    ("profile_lost_events", lambda profile, step, device_s: profile.trace.left_out["lost"] > 0),
    (
        "profile_contradicts_device_time",
        lambda profile, step, device_s: device_s is not None and not near(step, device_s),
    ),
)
"""Flags, and when they are raised."""


def contradictions(profile: Profile, device_s: float | None) -> tuple[str, ...]:
    """Flags for a profile that is inconsistent or contradicts the measured device time."""
    step = profile.typical
    if step is None:
        return ("profile_empty",)
    return tuple(flag for flag, holds in CHECKS if holds(profile, step, device_s))


def near(step: StepFacts, device_s: float) -> bool:
    """Whether busy time agrees with a device time, which includes the gaps between kernels."""
    work = step.kernels + step.copies + step.fills
    replayed = max(0, work - step.launches) if step.graph_launches else 0
    gaps_s = KERNEL_GAP_S * (work - replayed) + REPLAY_GAP_S * replayed
    pauses_s = min(gaps_s, LARGEST_PAUSES * device_s)
    slack_s = RELATIVE_TOLERANCE * device_s
    return -slack_s <= device_s - step.busy_s <= slack_s + pauses_s


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
