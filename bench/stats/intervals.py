"""Worst-case arithmetic of estimates with their intervals.

Nothing is assumed about the correlation of errors, so an interval may be wider than necessary,
never narrower. If one end is unknown, both ends of the result are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import mul, sub, truediv
from typing import Any

from modescope.bench.stats.estimates import Estimate

ONE = Estimate(1.0, 1.0, 1.0)


def of_columns(row: Mapping[str, Any], name: str) -> Estimate:
    """The ratio in a row's columns `name`, `name`_ci_low and `name`_ci_high."""
    return Estimate(*(row[f"{name}{end}"] for end in ("", "_ci_low", "_ci_high")))


def of_clock(row: Mapping[str, Any], name: str) -> Estimate:
    """The duration in a row's columns `name`_s, `name`_ci_low_s and `name`_ci_high_s."""
    return Estimate(*(row[f"{name}{end}_s"] for end in ("", "_ci_low", "_ci_high")))


def ends(estimate: Estimate) -> tuple[float, float]:
    """The ends of the interval; the value in place of an unknown end."""
    value, low, high = estimate.value, estimate.low, estimate.high
    return (value if low is None else low), (value if high is None else high)


def quotient(top: Estimate | None, bottom: Estimate | None) -> Estimate | None:
    """`top` ÷ `bottom`, both positive.

    None if one is unknown, or if its interval includes 0 and the quotient is unbounded.
    """
    if top is None or bottom is None or min(ends(top)[0], ends(bottom)[0]) <= 0:
        return None
    return _worst_case(truediv, top, bottom, crosswise=True)


def difference(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """`one` - `other`; None if one is unknown."""
    if one is None or other is None:
        return None
    return _worst_case(sub, one, other, crosswise=True)


def product(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """The product of two positive estimates; None if one is unknown."""
    if one is None or other is None:
        return None
    return _worst_case(mul, one, other, crosswise=False)


def _worst_case(
    by: Callable[[float, float], float], one: Estimate, other: Estimate, crosswise: bool
) -> Estimate:
    """`crosswise`: the lower end of the result comes from the upper end of `other`."""
    value, low, high = by(one.value, other.value), other.low, other.high
    if one.low is None or one.high is None or low is None or high is None:
        return Estimate(value, None, None)
    low, high = (high, low) if crosswise else (low, high)
    return Estimate(value, by(one.low, low), by(one.high, high))
