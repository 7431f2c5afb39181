"""Where does the time of a step go? A few steady steps under torch.profiler, after all timing.

Profiling may slow what comes later, as CUPTI may stay attached, so it belongs at the end of a
process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch._inductor import config as inductor

from bench import leftovers
from bench.devices import Hardware, Step
from bench.profiling import events, facts, files
from bench.profiling.bypassing import through_the_dispatcher
from bench.profiling.facts import WORKING_OPERATORS, StepFacts, TraceFacts
from bench.profiling.files import Saved
from bench.profiling.operators import working
from bench.profiling.steps import STEP

STEPS = 5  # enough for a median
LONGEST_S = 2.0  # of the profiled steps together; slow ones are fewer
MAX_BYTES = 5_000_000  # of a compressed trace

LOST_KERNELS = 100
"""Nothing is read of the first kernels: in CUDA 12.6 to 13.0 the n-th profile of a process loses
about n of them (github.com/pytorch/pytorch/issues/192021)."""

RELATIVE_TOLERANCE = 0.15
KERNEL_GAP_S, REPLAY_GAP_S = 2e-6, 1e-6
"""Between two kernels that are queued back to back the device idles for a microsecond or two, and
for less than one between those of a replayed graph: a device clock sees it, busy time does not."""

LARGEST_PAUSES = 0.5
"""Of a device time: of kernels as short as their gaps, no more than half may be missing unseen."""


@dataclass(frozen=True)
class Profile:
    """What the profiler saw of a steady step."""

    trace: TraceFacts
    overhead: float | None  # median latency under the profiler ÷ without it
    saved: Saved | None  # what the file holds; None: there is none, as none was asked
    notes: tuple[str, ...]

    @property
    def typical(self) -> StepFacts | None:
        """The step of median span: one that took place, so its facts agree with each other."""
        by_span = sorted(self.trace.steps, key=lambda step: step.span_s)
        return by_span[(len(by_span) - 1) // 2] if by_span else None


def capture(
    step: Step,
    device: Hardware,
    path: Path | None,
    expected_s: float,
    max_bytes: int = MAX_BYTES,
    settling_calls: int = 1,
) -> Profile:
    """Profiles a warm `step` that takes about `expected_s` when a caller waits for it.

    Each profiled step is a range called `STEP` and is waited for. `settling_calls` come before, the
    first of which pays for the profiler's buffers. `path`, a .json.gz, gets the trace, for Perfetto
    or `facts.read`: as many of its steps as fit into `max_bytes`. Raises OSError where it cannot be
    written.
    """
    count = max(1, min(STEPS, int(LONGEST_S / expected_s))) if expected_s > 0 else STEPS
    profiling = torch.profiler.profile(activities=list(device.activities))
    with through_the_dispatcher() as rerouted, profiling as profiler:
        if device.queues:
            for _ in range(LOST_KERNELS):
                device.hold(0.0)
        for _ in range(settling_calls):
            _waited_for(step, device)  # outside of any range
        latencies_s = [_ranged(step, device) for _ in range(count)]
    trace = _exported(profiler)
    names = _names(trace)
    if not device.queues:
        trace[WORKING_OPERATORS] = working(names)
    seen = facts.read(trace)
    saved = files.save(trace, path, max_bytes) if path else None
    overhead = median(latencies_s) / expected_s if expected_s > 0 else None
    notes = (*_notes(seen, count, saved, max_bytes), *_rerouted(rerouted & names))
    return Profile(seen, overhead, saved, notes)


def with_kernel_events(build: Callable[[], Step], calls: int = 3) -> Step:
    """The step of `build`, compiled once more so that a CPU's fused kernels show in a profile.

    Inductor's C++ kernels are invisible unless each opens a record of its own, which is another
    code than the one that is timed. `build` must return an uncompiled step: it is called `calls`
    times here. Whatever was compiled in this process before is forgotten, and compiles again
    should it be called.
    """
    torch.compiler.reset()
    with inductor.patch({"cpp.enable_kernel_profile": True}):
        step = build()
        for _ in range(calls):
            step()
    return step


Check = tuple[str, Callable[[Profile, StepFacts, float | None], bool]]

CHECKS: tuple[Check, ...] = (
    ("profile_busy_exceeds_span", lambda profile, step, device_s: step.busy_s > step.span_s),
    ("profile_lost_events", lambda profile, step, device_s: profile.trace.left_out.lost > 0),
    (
        "profile_contradicts_device_time",
        lambda profile, step, device_s: device_s is not None and not near(step, device_s),
    ),
)
"""Flags, and when they are raised."""


def contradictions(profile: Profile, device_s: float | None) -> tuple[str, ...]:
    """Flags for a profile that cannot be right, or does not fit the measured device time."""
    step = profile.typical
    if step is None:
        return ("profile_empty",)
    return tuple(flag for flag, holds in CHECKS if holds(profile, step, device_s))


def near(step: StepFacts, device_s: float) -> bool:
    """Whether busy time fits a device time, which includes the gaps between kernels."""
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


def _waited_for(step: Step, device: Hardware) -> None:
    step()
    device.synchronize()


def _exported(profiler: torch.profiler.profile) -> events.Trace:
    with leftovers.scratch() as folder:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))
        trace = events.load(path)
    trace.pop("traceName", None)  # the temporary file's
    return trace


def _names(trace: events.Trace) -> set[str]:
    found, _ = events.intervals(trace)
    return {each.name for each in found if each.category in events.OPERATIONS}


def _rerouted(names: Collection[str]) -> Iterator[str]:
    if names:
        yield (
            f"called through the C++ dispatcher while profiled, as torch {torch.__version__} may "
            f"call them directly, which no profiler records: {', '.join(sorted(names))}"
        )


def _notes(trace: TraceFacts, asked: int, saved: Saved | None, max_bytes: int) -> tuple[str, ...]:
    seen = len(trace.steps)
    notes = []
    if seen < asked:
        notes.append(f"{seen} of {asked} profiled steps are in the trace")
    if saved and saved.steps < seen:
        held = f"{saved.steps} of {seen} steps fit" if saved.steps else "not even one step fits"
        notes.append(f"{held} into a trace file of {max_bytes / 1e6:g} MB")
    for name in ("ops_top", "kernels", "launches", "graph_launches"):
        values = sorted({getattr(step, name) for step in trace.steps})
        if len(values) > 1:
            notes.append(f"{name} differs between steps: {', '.join(map(str, values))}")
    return tuple(notes)
