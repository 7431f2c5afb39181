"""The ends of known intervals, and the threshold that a recommendation requires."""

from __future__ import annotations

from modescope.bench.stats.estimates import MARGIN, Estimate


def low(estimate: Estimate) -> float:
    """The lower end of a known interval."""
    assert estimate.low is not None
    return estimate.low


def high(estimate: Estimate) -> float:
    """The upper end of a known interval."""
    assert estimate.high is not None
    return estimate.high


def hurdle(floor: Estimate | None) -> float:
    """The ratio that an interval must exceed: 1 + MARGIN, and a noise floor that excludes 1."""
    if floor is None or low(floor) <= 1 <= high(floor):
        return 1 + MARGIN
    return max(1 + MARGIN, high(floor), 1 / low(floor))
