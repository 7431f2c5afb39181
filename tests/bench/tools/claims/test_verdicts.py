"""Verdict functions of claims that wait for a GPU, a compiler or a clock, with given numbers."""

from __future__ import annotations

from typing import Any

import pytest

from modescope.bench.stats.estimates import Estimate
from modescope.bench.tools.claims.allocator import MIB, mended, reused, rounded
from modescope.bench.tools.claims.claim import HOLDS, REFUTED, UNDECIDED, WITHIN_LIMITS
from modescope.bench.tools.claims.compiled_speed import longest_and_best, typical_gains
from modescope.bench.tools.claims.cuda_graphs import gains_of_marked, kept_valid
from modescope.bench.tools.claims.custom_ops import fused_around
from modescope.bench.tools.claims.dispatch_cost import gains_by_size
from modescope.bench.tools.claims.dynamo import recompiled
from modescope.bench.tools.claims.measuring import CompilerWork


def about(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value, value - half, value + half)


NONE = about(0.0, 0.005)
WIDE = Estimate(1.4, 1.1, 1.7)


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [
        ([0.1], NONE, HOLDS),
        ([0.1, 0.2], NONE, WITHIN_LIMITS),
        ([0.2], NONE, REFUTED),
        ([0.1], about(0.04), REFUTED),
        ([0.1], about(0.02), UNDECIDED),
        ([0.05], NONE, UNDECIDED),
    ],
)
def test_gains_of_small_and_large_requests(
    small: list[float], large: Estimate, verdict: str
) -> None:
    named = {f"s{i} [share]": about(each) for i, each in enumerate(small)}
    assert gains_by_size(named, {"l [share]": large}).verdict == verdict


@pytest.mark.parametrize(
    ("gains", "kernel_s", "verdict"),
    [
        ((3.0, 1.0), 3e-6, HOLDS),
        ((0.9, 1.0), 3e-6, REFUTED),
        ((1.01, 1.0), 3e-6, UNDECIDED),
        ((3.0, 1.0), 2e-5, UNDECIDED),  # nothing is marked
    ],
)
def test_gains_of_work_that_a_profile_marks(
    gains: tuple[float, float], kernel_s: float, verdict: str
) -> None:
    profiles = {64: (3e-4, 1e-4, kernel_s), 4096: (3e-4, 9e-3, 1e-3)}
    speedups = dict(zip(profiles, map(about, gains), strict=True))
    assert gains_of_marked(speedups, profiles).verdict == verdict


@pytest.mark.parametrize(
    ("replays", "freed", "verdict"),
    [
        ((True, 100, 10, True), (True, 6.0, 14.0), HOLDS),
        ((True, 100, 10, False), (True, 6.0, 14.0), WITHIN_LIMITS),
        ((False, 100, 10, True), (True, 6.0, 14.0), REFUTED),
        ((True, 0, 0, True), (True, 6.0, 14.0), REFUTED),
        ((True, 100, 10, True), (True, 6.0, 6.0), REFUTED),
        ((True, 100, 10, True), (False, 6.0, 6.0), UNDECIDED),
        ((True, 100, 10, True), (True, 6.0, 0.5), UNDECIDED),
    ],
)
def test_replays_and_a_freed_input(
    replays: tuple[bool, int, int, bool], freed: tuple[bool, float, float], verdict: str
) -> None:
    named = dict(zip(("valid", "pool", "held", "stays"), replays, strict=True))
    assert kept_valid(named, *freed).verdict == verdict


@pytest.mark.parametrize(
    ("blocks", "segments", "verdict"),
    [
        ({1: 512, 3 * MIB: 4 * MIB}, {1: 2 * MIB, 3 * MIB: 20 * MIB}, HOLDS),
        ({1: 512, 11 * MIB: 11 * MIB}, {1: 2 * MIB, 11 * MIB: 12 * MIB}, WITHIN_LIMITS),
        ({1: 512, 11 * MIB: 11 * MIB}, {1: 2 * MIB, 11 * MIB: 11 * MIB}, REFUTED),
        ({1: 256}, {1: 2 * MIB}, REFUTED),
    ],
)
def test_sizes_of_blocks(blocks: dict[int, int], segments: dict[int, int], verdict: str) -> None:
    assert rounded(blocks, segments).verdict == verdict


@pytest.mark.parametrize(
    ("own", "other", "recorded", "verdict"),
    [
        (True, (True, False, True), (True, False, True), HOLDS),
        (True, (True, False, False), (True, False, True), WITHIN_LIMITS),
        (True, (True, True, True), (True, False, True), REFUTED),
        (True, (True, False, True), (True, True, True), REFUTED),
        (True, (False, True, True), (True, False, True), UNDECIDED),
        (False, (True, False, True), (True, False, True), UNDECIDED),
    ],
)
def test_blocks_of_another_stream(own: bool, other: Any, recorded: Any, verdict: str) -> None:
    assert reused(own, other, recorded).verdict == verdict


@pytest.mark.parametrize(
    ("served", "expands", "verdict"),
    [
        ((True, False, True, True), True, HOLDS),
        ((True, False, True, False), True, WITHIN_LIMITS),
        ((True, True, True, True), True, REFUTED),
        ((True, False, False, True), True, REFUTED),
        ((False, False, True, True), True, UNDECIDED),
        ((True, False, True, True), False, UNDECIDED),
    ],
)
def test_requests_to_a_cache_in_pieces(
    served: tuple[bool, ...], expands: bool, verdict: str
) -> None:
    whole, pieces, coarse, fine = ((each, 800 * MIB, expands) for each in served)
    assert mended(whole, pieces, coarse, fine).verdict == verdict


ONE = CompilerWork(1, 0, 1, 0)
AROUND = CompilerWork(1, 0, 2, 1)


@pytest.mark.parametrize(
    ("own", "custom", "is_triton", "verdict"),
    [
        (ONE, AROUND, True, HOLDS),
        (ONE, AROUND, False, WITHIN_LIMITS),
        (ONE, CompilerWork(2, 1, 2, 1), True, REFUTED),
        (ONE, ONE, True, REFUTED),
        (CompilerWork(1, 0, 2, 0), AROUND, True, UNDECIDED),
    ],
)
def test_kernels_around_a_custom_op(
    own: CompilerWork, custom: CompilerWork, is_triton: bool, verdict: str
) -> None:
    assert fused_around(own, custom, is_triton).verdict == verdict


@pytest.mark.parametrize(
    ("sizes", "verdict"),
    [
        ([(9.0, about(1.5), about(1.8))], HOLDS),
        ([(9.0, about(1.5), about(1.8)), (9.0, about(1.1), about(1.3))], WITHIN_LIMITS),
        ([(9.0, about(1.1), about(1.3))], REFUTED),
        ([(9.0, about(1.5), about(1.2))], REFUTED),
        ([(0.2, about(1.5), about(1.8))], REFUTED),
        ([(9.0, WIDE, about(1.0))], REFUTED),
        ([(9.0, about(1.3), about(1.8))], UNDECIDED),
        ([(9.0, about(1.5), about(1.51))], UNDECIDED),
        ([(9.0, Estimate(1.6, None, None), about(1.8))], UNDECIDED),
        ([(9.0, about(1.1), about(1.3)), (9.0, WIDE, about(1.8))], UNDECIDED),
    ],
)
def test_gains_of_a_transformer(
    sizes: list[tuple[float, Estimate, Estimate]], verdict: str
) -> None:
    rows = {f"size {i}": (first, 0.1, train, use) for i, (first, train, use) in enumerate(sizes)}
    assert typical_gains(rows).verdict == verdict


@pytest.mark.parametrize(
    ("gains", "tuned_s", "verdict"),
    [
        ([about(1.2), about(1.2)], 30.0, HOLDS),
        ([about(1.2), about(1.0, 0.001)], 30.0, HOLDS),
        ([about(1.2), about(0.9), about(0.9)], 30.0, WITHIN_LIMITS),
        ([about(0.9), about(0.9)], 30.0, REFUTED),
        ([about(1.2), about(1.2)], 2.5, REFUTED),
        ([about(1.2), WIDE, about(0.9), about(0.9)], 30.0, HOLDS),
        ([about(1.0, 0.1), about(0.9)], 30.0, UNDECIDED),
    ],
)
def test_compile_times_and_gains_of_autotuning(
    gains: list[Estimate], tuned_s: float, verdict: str
) -> None:
    modes = "default", "reduce-overhead", "max-autotune"
    seconds = {
        f"m{i}": dict(zip(modes, (2.0, 3.0, tuned_s), strict=True)) for i in range(len(gains))
    }
    ratios = {f"m{i}": dict.fromkeys(modes[:-1], each) for i, each in enumerate(gains)}
    assert longest_and_best(seconds, ratios).verdict == verdict


STATED = {
    "sizes": (1, 2, 2, 2),
    "smallest": (1, 2, 2, 2),
    "static": (1, 2, 3, 4),
    "switched": (1, 2, 2, 2),
}


@pytest.mark.parametrize(
    ("changes", "limit", "verdict"),
    [
        ({}, 8, HOLDS),
        ({"smallest": (1, 2, 3, 4)}, 8, WITHIN_LIMITS),
        ({"static": (1, 2, 2, 2)}, 2, WITHIN_LIMITS),
        ({"switched": (1, 2, 3, 4)}, 8, WITHIN_LIMITS),
        ({"sizes": (1, 1, 1, 1)}, 8, REFUTED),
        ({"sizes": (1, 2, 3, 3)}, 8, REFUTED),
        ({"static": (1, 2, 2, 2)}, 8, REFUTED),
        ({"switched": (1, 1, 1, 1)}, 8, REFUTED),
    ],
)
def test_graphs_after_each_call(
    changes: dict[str, tuple[int, ...]], limit: int, verdict: str
) -> None:
    assert recompiled(STATED | changes, limit).verdict == verdict
