"""Contradictions of profiles that were changed after they were taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch

from modescope.bench.case.profiler import profile
from modescope.bench.case.profiler.capture import capture
from modescope.bench.case.profiler.profile import Profile
from modescope.bench.devices.devices import Cpu


@pytest.fixture(scope="module")
def sane() -> Profile:
    ones = torch.ones(4)
    return capture(ones.relu, Cpu(), None, expected_s=1e-5)


def with_step(sane: Profile, lost: int = 0, **changes: float) -> Profile:
    facts = replace(sane.trace.steps[0], kernels=100, kernels_s=1e-3, busy_s=1e-3, span_s=2e-3)
    left_out = Counter(lost=lost)
    trace = replace(sane.trace, steps=(replace(facts, **changes),), left_out=left_out)  # type: ignore[arg-type]
    return replace(sane, trace=trace, place=0)


@pytest.mark.parametrize(
    ("device_s", "flags"),
    [
        (None, ()),
        (1.0e-3, ()),
        (1.1e-3, ()),
        (1.4e-3, ()),  # 100 kernels may leave 200 us between them, and 15 % are tolerated
        (1.5e-3, ("profile_contradicts_device_time",)),
        (0.9e-3, ()),
        (0.8e-3, ("profile_contradicts_device_time",)),
    ],
)
def test_busy_time_is_compared_with_the_device_clock(
    sane: Profile, device_s: float | None, flags: tuple[str, ...]
) -> None:
    assert profile.flags(with_step(sane), device_s) == flags


@pytest.mark.parametrize(
    ("kernels", "graph_launches", "launches", "device_s", "fits"),
    [
        (1000, 0, 1000, 2.5e-3, True),  # 2 us each would be 2 ms, half of device time is 1.25
        (1000, 0, 1000, 3.0e-3, False),
        (100, 1, 0, 1.25e-3, True),
        (100, 1, 0, 1.35e-3, False),  # 1 us each in a replay, and 15 % are tolerated
        (100, 0, 100, 1.35e-3, True),
        (100, 1, 60, 1.35e-3, True),  # 60 before the replay, 40 in it
    ],
)
def test_gaps_between_kernels_explain_missing_busy_time_up_to_a_limit(
    sane: Profile, kernels: int, graph_launches: int, launches: int, device_s: float, fits: bool
) -> None:
    """Busy for 1 ms."""
    changes = {"kernels": kernels, "graph_launches": graph_launches, "launches": launches}
    assert (profile.flags(with_step(sane, **changes), device_s) == ()) == fits


def test_implausible_profiles_are_flagged(sane: Profile) -> None:
    assert profile.flags(with_step(sane, busy_s=3e-3), None) == ("profile_busy_exceeds_span",)
    assert profile.flags(with_step(sane, lost=2), None) == ("profile_lost_events",)
    empty = replace(sane, trace=replace(sane.trace, steps=()), place=None)
    assert profile.flags(empty, 1.0) == ("profile_empty",)
    assert empty.typical is None
