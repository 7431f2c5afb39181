"""Floors worked out by hand."""

from __future__ import annotations

import pytest

from modescope.bench.records.columns.passes import WorkCounts
from modescope.bench.stats.roofline import Ceilings, Floor, floor

KIB_MIB_GIB = ((2**10, 100.0), (2**20, 40.0), (2**30, 10.0))


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (WorkCounts(flops=3000, least_bytes=2**30), Floor(2**30 / 10.0, "memory")),
        (WorkCounts(flops=10**13, least_bytes=2**30), Floor(10**10, "compute")),
        (WorkCounts(flops=0, least_bytes=2**20), Floor(2**20 / 40.0, "memory")),
        (WorkCounts(flops=None, least_bytes=2**20), None),
        (WorkCounts(flops=3000, least_bytes=None), None),
    ],
)
def test_the_floor_is_the_longer_of_two_times(work: WorkCounts, expected: Floor | None) -> None:
    assert floor(work, Ceilings(1000.0, KIB_MIB_GIB)) == expected


def test_without_ceilings_there_is_no_floor() -> None:
    for known in (Ceilings(None, KIB_MIB_GIB), Ceilings(1000.0, ())):
        assert floor(WorkCounts(3000, 2**20), known) is None


@pytest.mark.parametrize(
    ("moved_bytes", "bytes_per_s"),
    [(1, 100.0), (2**10, 100.0), (2**20 - 1, 100.0), (2**20, 40.0), (2**31, 10.0)],
)
def test_bandwidth_is_that_of_the_next_smaller_transfer(
    moved_bytes: int, bytes_per_s: float
) -> None:
    assert Ceilings(None, KIB_MIB_GIB).bytes_per_s(moved_bytes) == bytes_per_s


def test_a_slow_small_transfer_does_not_lower_the_ceiling() -> None:
    """Launching dominated the small transfer, so the rate of a larger one is the ceiling."""
    assert Ceilings(None, ((2**10, 1.0), (2**20, 40.0))).bytes_per_s(2**10) == 40.0
