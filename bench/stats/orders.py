"""How the order of case and baseline within a round affects their ratio. Pure functions.

A load that comes and goes with the rounds, or a step that leaves the caches in a state that favours
the next step, moves the ratio up in rounds in which the case ran first and down in the others. Each
step runs first in half of the rounds, so the true ratio lies halfway between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


def rank(values: Numbers) -> NDArray[np.float64]:
    """Returns the ranks 1 ... n of `values`; equal values share the mean of their ranks."""
    _, places, ties = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(ties) - (ties - 1) / 2
    return shared[places]


def mann_whitney_z(first: Numbers, second: Numbers) -> float:
    """Returns the z of a Mann-Whitney test: positive if `first` ranks higher, 0 if all are equal.

    Normal approximation with the variance for ties and a continuity correction of half a rank
    towards 0 (Lehmann, Nonparametrics: Statistical Methods Based on Ranks, sections 1.3 and 1.4;
    Conover, Practical Nonparametric Statistics, 3rd ed., section 5.1). Neither may be empty.
    """
    both = np.concatenate([first, second])
    n, total = len(first), len(both)
    ties = np.unique(both, return_counts=True)[1].astype(np.float64)
    tied = float(np.sum(ties**3 - ties)) / (total * (total - 1))
    deviation = math.sqrt(n * (total - n) / 12 * (total + 1 - tied))
    excess = float(rank(both)[:n].sum()) - n * (total + 1) / 2
    beyond = max(0.0, abs(excess) - 0.5)
    return math.copysign(beyond / deviation, excess) if beyond else 0.0


ORDER_P = 0.005
MIN_ROUNDS_PER_ORDER = 5  # fewer give no useful ranks

Logs = NDArray[np.float64]
CaseFirst = Sequence[bool] | NDArray[np.bool_] | None
"""Per round, whether the case ran before the baseline; None if that is unknown."""


@dataclass(frozen=True)
class OrderEffect:
    """How rounds with the case first differ from rounds with the case second.

    `z` and `difference` are above 0 if log ratios are larger with the case first.
    """

    z: float  # of a Mann-Whitney test
    p: float  # two-sided
    difference: float  # between the medians of the log ratios


def order_effect(log_ratios: Logs, case_first: CaseFirst) -> OrderEffect | None:
    """Returns the effect of the order on `log_ratios`, which have one value per round.

    None if the order is unknown or either order has fewer than MIN_ROUNDS_PER_ORDER rounds.
    """
    if case_first is None or len(case_first) != len(log_ratios):
        return None
    first = np.asarray(case_first, dtype=bool)
    ahead, behind = log_ratios[first], log_ratios[~first]
    if min(len(ahead), len(behind)) < MIN_ROUNDS_PER_ORDER:
        return None
    z = mann_whitney_z(ahead, behind)
    difference = float(np.median(ahead) - np.median(behind))
    return OrderEffect(z, math.erfc(abs(z) / math.sqrt(2)), difference)


def remove_order_effect(log_ratios: Logs, case_first: CaseFirst) -> Logs:
    """Returns `log_ratios` with both orders moved to the middle between their medians.

    If the effect is not significant at ORDER_P, `log_ratios` come back unchanged: taking off a
    difference that is noise makes intervals too narrow (91 to 94 % instead of 96 % at 12 to 20
    rounds). With an effect of ±2 % and noise of 0.2 %, the median of 60 rounds is off by up to 1.8
    %, after removal by 0.07 %. Its interval is then as narrow as without the effect and covers the
    true ratio equally often (93 to 97 %, simulated).
    """
    effect = order_effect(log_ratios, case_first)
    if effect is None or effect.p >= ORDER_P:
        return log_ratios
    half = effect.difference / 2
    moved: Logs = log_ratios - np.where(np.asarray(case_first, dtype=bool), half, -half)
    return moved
