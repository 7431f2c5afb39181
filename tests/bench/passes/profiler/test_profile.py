"""Columns of profiles, and contradictions of some that were changed after they were taken."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from modescope.bench.passes.profiler import profile
from modescope.bench.passes.profiler.capture import Profile, ProfiledCalls, find_typical
from modescope.bench.passes.profiler.facts import Heavy, StepFacts
from modescope.bench.passes.profiler.profile import columns
from modescope.bench.records.columns.passes import Profiled

TYPICAL = StepFacts(
    span_s=2.0,
    guards_s=0.5,
    compiled_wrapper_s=0.25,
    ops_top=1,
    ops_leaf=4,
    leaf_ops_s=1.5,
    kernels=5,
    kernels_s=1.0,
    launches=3,
    graph_launches=0,
    lost=0,
    copies=2,
    fills=6,
    busy_s=0.75,
    launch_delays_s=(5e-6, 1e-6, 3e-6),
    heaviest_kernels=(Heavy("a", 2, 0.75), Heavy("b", 1, 0.25)),
    heaviest_ops=(Heavy("c", 1, 0.5),),
)
LONGEST = replace(TYPICAL, span_s=9.0, kernels_s=5.0, heaviest_kernels=(Heavy("a", 20, 5.0),))


def taken_of(*steps: StepFacts) -> Profile:
    """Calls beside them take 2 s, but for the last."""
    alone_s = (*(2.0,) * (len(steps) - 1), 2.5)
    calls = ProfiledCalls((2.0,) * len(steps), (2e-5, 3e-5, 4e-5)[: len(steps)], alone_s)
    return Profile(steps, calls, find_typical(steps, calls), 1.5, 5, ("one", "two"))


def test_columns_are_of_the_typical_step() -> None:
    taken = taken_of(LONGEST, TYPICAL, replace(TYPICAL, span_s=1.0))
    of_cpu = columns(taken, launches=False, trace="run.json.gz")
    assert of_cpu == Profiled(
        ops_dispatched=1,
        ops_leaf=4,
        leaf_ops_s=1.5,
        kernels=5,
        kernels_s=1.0,
        device_busy_s=0.75,
        profiled_kernels_rounds_s=(5.0, 1.0, 1.0),
        profiled_latency_rounds_s=(2.0, 2.0, 2.5),
        profiled_pace_s=3e-5,
        guards_s=0.5,
        compiled_wrapper_s=0.25,
        profiled_span_s=2.0,
        heaviest_kernels=json.dumps([asdict(each) for each in TYPICAL.heaviest_kernels]),
        heaviest_ops='[{"name": "c", "count": 1, "seconds": 0.5}]',
        profiler_overhead=1.5,
        profile_note="one; two",
        trace="run.json.gz",
    )
    of_gpu = columns(taken, launches=True, trace="run.json.gz")
    assert of_gpu == replace(of_cpu, launches=3, copies=2, fills=6, launch_delay_s=3e-6)
    assert columns(replace(taken, saved_steps=0), False, "run.json.gz").trace is None


def test_a_trace_without_steps_leaves_nulls() -> None:
    taken = replace(taken_of(TYPICAL), steps=(), place=None)
    assert columns(taken, launches=True) == Profiled(profiler_overhead=1.5, profile_note="one; two")
    assert profile.flags(taken, 1.0) == ("profile_empty",)


def spans(*seconds: float) -> tuple[StepFacts, ...]:
    return tuple(replace(TYPICAL, span_s=span_s) for span_s in seconds)


@pytest.mark.parametrize(
    ("unrecorded_s", "paces_s", "place"),
    [
        ((0.3, 0.1, 0.1), (1.0, 1.0, 1.0), 1),  # 10, 11 and 20 times the calls beside them
        (None, (0.3, 0.1, 0.1), 1),
        ((1.0, 1.0, 1.0), (0.3, 0.1, 0.1), 2),
    ],
)
def test_the_typical_step_has_the_median_span_at_equal_pace(
    unrecorded_s: tuple[float, ...] | None, paces_s: tuple[float, ...], place: int
) -> None:
    calls = ProfiledCalls((1.0,) * 3, paces_s, unrecorded_s)
    assert find_typical(spans(3.0, 1.1, 2.0), calls) == place


def test_steps_of_an_incomplete_trace_have_no_pace_and_no_pairs() -> None:
    """Of two in the middle the shorter is typical."""
    steps, calls = spans(3.0, 1.0, 9.0, 2.0), ProfiledCalls((1.0,) * 5, (1.0,) * 5, (1.0,) * 5)
    partly = columns(
        Profile(steps, calls, find_typical(steps, calls), None, None, ()), launches=False
    )
    assert (partly.profiled_span_s, partly.profiled_pace_s) == (2.0, None)
    assert partly.profiled_kernels_rounds_s is partly.profiled_latency_rounds_s is None


BUSY = replace(TYPICAL, kernels=100, launches=100, busy_s=1e-3, span_s=2e-3, copies=0, fills=0)


@pytest.mark.parametrize(
    ("changes", "device_s", "flag"),
    [
        ({}, None, None),
        # 100 kernels may leave 200 us between them, and 15 % are tolerated
        ({}, 1.4e-3, None),
        ({}, 1.5e-3, "profile_contradicts_device_time"),
        ({}, 0.9e-3, None),
        ({}, 0.8e-3, "profile_contradicts_device_time"),
        # 2 us each would be 2 ms, half of device time is 1.25
        ({"kernels": 1000, "launches": 1000}, 2.5e-3, None),
        ({"kernels": 1000, "launches": 1000}, 3.0e-3, "profile_contradicts_device_time"),
        # 1 us each in a replay
        ({"graph_launches": 1, "launches": 0}, 1.25e-3, None),
        ({"graph_launches": 1, "launches": 0}, 1.35e-3, "profile_contradicts_device_time"),
        ({"graph_launches": 1, "launches": 60}, 1.35e-3, None),  # 60 before it, 40 in it
        ({"busy_s": 3e-3}, None, "profile_busy_exceeds_span"),
        ({"lost": 2}, None, "profile_lost_events"),
    ],
)
def test_a_profile_that_contradicts_itself_or_the_device_clock_is_flagged(
    changes: dict[str, Any], device_s: float | None, flag: str | None
) -> None:
    """100 kernels are busy for 1 ms of 2 ms."""
    flags = profile.flags(taken_of(replace(BUSY, **changes)), device_s)
    assert flags == (() if flag is None else (flag,))
