"""Columns of profiles, and contradictions of some that were changed after they were taken."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from modescope.bench.case.profiler import profile
from modescope.bench.case.profiler.facts import Heavy, StepFacts, TraceFacts
from modescope.bench.case.profiler.profile import Profile, columns, typical
from modescope.bench.case.profiler.profiled_calls import ProfiledCalls
from modescope.bench.records.columns import Profiled

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
    copies=2,
    fills=6,
    busy_s=0.75,
    launch_delays_s=(5e-6, 1e-6, 3e-6),
    heaviest_kernels=(Heavy("a", 2, 0.75), Heavy("b", 1, 0.25)),
    heaviest_ops=(Heavy("c", 1, 0.5),),
)
LONGEST = replace(TYPICAL, span_s=9.0, kernels_s=5.0, heaviest_kernels=(Heavy("a", 20, 5.0),))


def taken_of(*steps: StepFacts, left_out: Counter[str] | None = None) -> Profile:
    """Calls beside them take 2 s, but for the last."""
    alone_s = (*(2.0,) * (len(steps) - 1), 2.5)
    turns = ProfiledCalls((2.0,) * len(steps), (2e-5, 3e-5, 4e-5)[: len(steps)], alone_s)
    trace = TraceFacts(steps, left_out or Counter())
    return Profile(trace, turns, typical(steps, turns), 1.5, 5, ("one", "two"))


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
        heaviest_kernels=json.dumps(
            [
                {"name": "a", "count": 2, "seconds": 0.75},
                {"name": "b", "count": 1, "seconds": 0.25},
            ]
        ),
        heaviest_ops=json.dumps([{"name": "c", "count": 1, "seconds": 0.5}]),
        profiler_overhead=1.5,
        profile_note="one; two",
        trace="run.json.gz",
    )
    of_gpu = columns(taken, launches=True, trace="run.json.gz")
    assert of_gpu == replace(of_cpu, launches=3, copies=2, fills=6, launch_delay_s=3e-6)
    assert columns(replace(taken, saved_steps=0), False, "run.json.gz").trace is None


def test_a_trace_without_steps_leaves_nulls() -> None:
    taken = replace(taken_of(TYPICAL), trace=TraceFacts((), Counter()), place=None)
    assert columns(taken, launches=True) == Profiled(profiler_overhead=1.5, profile_note="one; two")
    assert profile.flags(taken, 1.0) == ("profile_empty",)


def busy(left_out: Counter[str] | None = None, **changes: float) -> Profile:
    """100 kernels are busy for 1 ms of 2 ms."""
    usual = replace(TYPICAL, kernels=100, busy_s=1e-3, span_s=2e-3, copies=0, fills=0)
    return taken_of(replace(usual, **changes), left_out=left_out)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("device_s", "fits"),
    [
        (None, True),
        (1.4e-3, True),  # 100 kernels may leave 200 us between them, and 15 % are tolerated
        (1.5e-3, False),
        (0.9e-3, True),
        (0.8e-3, False),
    ],
)
def test_busy_time_is_compared_with_the_device_clock(device_s: float | None, fits: bool) -> None:
    flags = () if fits else ("profile_contradicts_device_time",)
    assert profile.flags(busy(), device_s) == flags


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
    kernels: int, graph_launches: int, launches: int, device_s: float, fits: bool
) -> None:
    made = busy(kernels=kernels, graph_launches=graph_launches, launches=launches)
    assert (profile.flags(made, device_s) == ()) == fits


def test_implausible_profiles_are_flagged() -> None:
    assert profile.flags(busy(busy_s=3e-3), None) == ("profile_busy_exceeds_span",)
    assert profile.flags(busy(Counter(lost=2)), None) == ("profile_lost_events",)
