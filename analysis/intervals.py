"""Arithmetic of estimates with their intervals, by the worst case of every end.

Nothing is assumed of how the errors of two estimates hang together, so an interval made here is
wider than it had to be, never narrower. Where one end is unknown, both ends of the answer are.
"""

from __future__ import annotations

from bench.stats import Estimate

ONE = Estimate(1.0, 1.0, 1.0)


def quotient(top: Estimate | None, bottom: Estimate | None) -> Estimate | None:
    """How many times `bottom` is `top`, both positive?

    None where one is unknown or may be 0 as far as its interval says: nothing bounds the quotient.
    """
    if top is None or bottom is None or min(_least(top), _least(bottom)) <= 0:
        return None
    low, high = _over(top.low, bottom.high), _over(top.high, bottom.low)
    return _with_both_ends(top.value / bottom.value, low, high)


def difference(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """What `other` leaves of `one`; None where one is unknown."""
    if one is None or other is None:
        return None
    low, high = _less(one.low, other.high), _less(one.high, other.low)
    return _with_both_ends(one.value - other.value, low, high)


def product(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """Both multiplied, both positive; None where one is unknown."""
    if one is None or other is None:
        return None
    low, high = _times(one.low, other.low), _times(one.high, other.high)
    return _with_both_ends(one.value * other.value, low, high)


def _least(estimate: Estimate) -> float:
    return estimate.value if estimate.low is None else estimate.low


def _over(top: float | None, bottom: float | None) -> float | None:
    return None if top is None or bottom is None else top / bottom


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _with_both_ends(value: float, low: float | None, high: float | None) -> Estimate:
    if low is None or high is None:
        return Estimate(value, None, None)
    return Estimate(value, low, high)
