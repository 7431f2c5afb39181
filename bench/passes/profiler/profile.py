"""Turns a profile into columns that describe one typical step, and flags contradictions in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from statistics import median

from modescope.bench.passes.profiler.capture import Profile
from modescope.bench.passes.profiler.facts import StepFacts
from modescope.bench.records.columns.passes import Profiled

RELATIVE_TOLERANCE = 0.15

KERNEL_GAP_S, REPLAY_GAP_S = 2e-6, 1e-6
"""Idle time of the device between two kernels that are queued back to back, or in a replayed graph.
Device time includes these gaps, busy time does not."""

LARGEST_PAUSES = 0.5
"""Largest share of a device time that gaps may explain, so that missing kernels are noticed even
where kernels are as short as their gaps."""

CHECKS: tuple[ProfileCheck, ...] = (
    ("profile_busy_exceeds_span", lambda profile, step, device_s: step.busy_s > step.span_s),
    ("profile_lost_events", lambda profile, step, device_s: any(s.lost for s in profile.steps)),
    (
        "profile_contradicts_device_time",
        lambda profile, step, device_s: device_s is not None and not agrees_with(step, device_s),
    ),
)
"""Flags of a profile, each with the condition for it: a function of the profile, its typical step,
and the measured device time in seconds or None."""


def columns(profile: Profile, launches: bool, trace: str | None = None) -> Profiled:
    """Returns the columns that describe the typical step of `profile`.

    They are null if `profile` has no step. `launches` is whether the device has launches to count,
    which a CPU has not. `trace` is the name of the trace file, if one was requested.
    """
    place, note = profile.place, "; ".join(profile.notes) or None
    if place is None:
        return Profiled(profiler_overhead=profile.overhead, profile_note=note)
    step = profile.steps[place]
    delays_s, alone_s = step.launch_delays_s, profile.calls.unrecorded_s
    whole = profile.complete
    pairs = whole and alone_s is not None
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
        profiled_kernels_rounds_s=tuple(s.kernels_s for s in profile.steps) if pairs else None,
        profiled_latency_rounds_s=alone_s if pairs else None,
        profiled_pace_s=profile.calls.paces_s[place] if whole else None,
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


ProfileCheck = tuple[str, Callable[[Profile, StepFacts, float | None], bool]]


def flags(profile: Profile, device_s: float | None) -> tuple[str, ...]:
    """Returns the flags of a profile that is empty or contradicts itself or the device time.

    `device_s` is the device time of a call measured without the profiler; None if unknown.
    """
    step = profile.typical
    if step is None:
        return ("profile_empty",)
    return tuple(flag for flag, holds in CHECKS if holds(profile, step, device_s))


def agrees_with(step: StepFacts, device_s: float) -> bool:
    """Returns whether `device_s`, the device time of a call, agrees with the busy time of `step`.

    They may differ by RELATIVE_TOLERANCE. The device time may also be longer by the gaps between
    kernels, which are part of it alone.
    """
    work = step.kernels + step.copies + step.fills
    replayed = max(0, work - step.launches) if step.graph_launches else 0
    gaps_s = KERNEL_GAP_S * (work - replayed) + REPLAY_GAP_S * replayed
    pauses_s = min(gaps_s, LARGEST_PAUSES * device_s)
    slack_s = RELATIVE_TOLERANCE * device_s
    return -slack_s <= device_s - step.busy_s <= slack_s + pauses_s
