"""Estimates beside a range that a statement names: within it, outside, or across a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from bench.claims.claim import Verdict, holds, inconclusive, refuted, within_limits
from bench.stats import Estimate

Named = dict[str, Estimate]

MOST_NAMED = 4


@dataclass(frozen=True)
class Placed:
    """Estimates by where their intervals lie."""

    below: Named
    within: Named
    above: Named
    undecided: Named  # a bound lies inside the interval, which may be too wide or unknown


def placed(
    estimates: Mapping[str, Estimate], low: float, high: float, widest: float = math.inf
) -> Placed:
    """Where does each interval lie beside `low` to `high`? One wider than `widest` says nothing."""
    found = Placed({}, {}, {}, {})
    for name, each in estimates.items():
        if each.low is None or each.high is None or each.high - each.low > widest:
            found.undecided[name] = each
        else:
            _place(found, each.low, each.high, low, high)[name] = each
    return found


def _place(found: Placed, least: float, most: float, low: float, high: float) -> Named:
    if most < low:
        return found.below
    if least > high:
        return found.above
    return found.within if low <= least and most <= high else found.undecided


def verdict(found: Placed, bounds: tuple[str, str], told: Callable[[float], str]) -> Verdict:
    """Holds if all intervals lie within the range, within limits if some do and others outside.

    Refuted if all lie outside. Else undecided: those that a bound cuts would turn the answer; where
    they cannot, they are a limit. Undecided, too, if there are no estimates.
    `bounds` and `told` put the range and a value into words.
    """
    low, high = bounds
    count = sum(map(len, vars(found).values()))
    if not count:
        return inconclusive(f"there is no figure to stand beside {low} to {high}")
    inside = f"{len(found.within)} of {count} within {low} to {high}: {_listed(found.within, told)}"
    outside = [
        f"{len(some)} {where}: {_listed(some, told)}"
        for where, some in ((f"below {low}", found.below), (f"above {high}", found.above))
        if some
    ]
    cut = f"the interval has {low} or {high} inside, or there is none: "
    cut += _listed(found.undecided, told)
    if found.within and outside:
        return within_limits(inside, *outside, *([cut] if found.undecided else []))
    if found.undecided:
        return inconclusive(cut)
    if outside:
        return refuted(f"no interval lies within {low} to {high}", "; ".join(outside))
    return holds(inside)


def _listed(some: Named, told: Callable[[float], str]) -> str:
    """All of a few; of many the extremes."""
    each = sorted(some, key=lambda name: some[name].value)
    named = [f"{name} ({told(some[name].value)})" for name in each]
    if len(named) <= MOST_NAMED:
        return ", ".join(named)
    return f"from {named[0]} to {named[-1]}"


def converted(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """The estimate in another unit; `function` grows."""
    if estimate.low is None or estimate.high is None:
        return replace(estimate, value=function(estimate.value))
    return Estimate(*map(function, (estimate.value, estimate.low, estimate.high)))
