"""The ends of intervals that are there, and what they have to lie above."""

from __future__ import annotations

from bench.stats import MARGIN, Estimate


def low(estimate: Estimate) -> float:
    """The lower end of an interval that is there."""
    assert estimate.low is not None
    return estimate.low


def high(estimate: Estimate) -> float:
    """The upper end of an interval that is there."""
    assert estimate.high is not None
    return estimate.high


def hurdle(floor: Estimate | None) -> float:
    """What an interval has to lie above: MARGIN, and a noise floor that excludes 1."""
    if floor is None or low(floor) <= 1 <= high(floor):
        return 1 + MARGIN
    return max(1 + MARGIN, high(floor), 1 / low(floor))
