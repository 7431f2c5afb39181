"""What a profile says of one typical step, as columns."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median

from modescope.bench.case.profiler.facts import StepFacts, TraceFacts
from modescope.bench.records.columns import Profiled


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
        guards_s=step.guards_s,
        compiled_wrapper_s=step.compiled_wrapper_s,
        profiled_span_s=step.span_s,
        launch_delay_s=median(delays_s) if launches and delays_s else None,
        heaviest_kernels=json.dumps([asdict(each) for each in step.heaviest_kernels]),
        heaviest_ops=json.dumps([asdict(each) for each in step.heaviest_ops]),
        profiler_overhead=profile.overhead,
        profile_note=note,
        trace=trace if profile.saved_steps else None,
    )
