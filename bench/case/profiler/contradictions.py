"""Checks of a profile for contradictions, in itself and with the measured device time."""

from __future__ import annotations

from collections.abc import Callable

from modescope.bench.case.profiler.facts import StepFacts
from modescope.bench.case.profiler.profile import Profile

RELATIVE_TOLERANCE = 0.15
KERNEL_GAP_S, REPLAY_GAP_S = 2e-6, 1e-6
"""Idle time of the device between two kernels that are queued back to back, or in a replayed graph.
Device time includes these gaps, busy time does not."""

LARGEST_PAUSES = 0.5
"""Largest share of a device time that gaps may explain, so that missing kernels are noticed even
where kernels are as short as their gaps."""

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


def flags(profile: Profile, device_s: float | None) -> tuple[str, ...]:
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
