"""Are the rounds what their interval takes them for: independent draws from one distribution?

Pure functions on numbers (numpy, `bench.stats` and `bench.ranks` only). Nothing is deleted for what
they find: it is named, as a flag, and the reader decides. A flag needs an effect that chance rarely
gives and a size that matters, because a shared machine always wanders a little, and over many
rounds even a tenth of a percent is significant. On noise without any effect less than 4 % of rows
get a flag.

`values` are logarithms of durations or of their ratios, one per round in the order played, so a
difference is a relative change. A function returns None where nothing can be said: fewer than
MIN_ROUNDS rounds, a value that is not finite, values that are all equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.ranks import mann_whitney_z, ranked
from bench.stats import MIN_ROUNDS, Samples

DRIFT_P = 0.005  # asked of durations and of ratios: 1 % together
DURATION_DRIFT = 0.01  # 1 % between the first third of the rounds and the last
RATIO_DRIFT = 0.005  # less, because what slows both of a pair leaves their ratio alone
AUTOCORRELATION_P = 0.005
UNDERSTATED = 0.2  # the interval should be a fifth wider
SEPARATION = 3.5  # a normal distribution cut in two has D = 2.6, a uniform one 3.46
SEPARATION_ERROR = 2.1  # over sqrt(n); see `bimodality`
MODE_SHARE = 0.15  # of the rounds; fewer are spikes, which a median shrugs off
MODE_DISTANCE = 0.01
ORDER_P = 0.005
ORDER_DIFFERENCE = 0.02  # 1 % to either side of the ratio, which the balance of orders takes out
MIN_GROUP = 5  # rounds; a group of fewer has no spread and no ranks to speak of

Logs = NDArray[np.float64]
Order = Sequence[bool] | NDArray[np.bool_] | None


@dataclass(frozen=True)
class Finding:
    """What a test says."""

    statistic: float
    p: float  # the probability of one as extreme by chance
    size: float  # of the effect, relative (0.02: 2 %)


@dataclass(frozen=True)
class Modes:
    """Two groups of rounds."""

    separation: float  # the least Ashman's D that their number leaves plausible
    distance: float  # between their means, relative


def drift(values: Samples) -> Finding | None:
    """Do the values rise or fall with time? Kendall's tau-b against the round's index, two-sided.

    Normal approximation with the variance for ties and a continuity correction (Kendall, Rank
    Correlation Methods, 4th ed., chapters 3 and 4; as a test of trend: Mann, Econometrica 13,
    1945). Size: the change from the median of the first third to that of the last.
    """
    logs = _varied(values)
    if logs is None:
        return None
    n, third = len(logs), len(logs) // 3
    ties = np.unique(logs, return_counts=True)[1]
    pairs, tied_pairs = n * (n - 1) / 2, float(np.sum(ties * (ties - 1))) / 2
    place = np.arange(n)
    rising = np.count_nonzero((logs > logs[:, None]) & (place > place[:, None]))
    score = 2 * rising - (pairs - tied_pairs)  # pairs that rise less those that fall
    tied = float(np.sum(ties * (ties - 1) * (2 * ties + 5)))
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - tied) / 18)
    return Finding(
        statistic=score / math.sqrt(pairs * (pairs - tied_pairs)),
        p=_two_sided(max(0, abs(score) - 1) / deviation),
        size=math.expm1(float(np.median(logs[-third:]) - np.median(logs[:third]))),
    )


def autocorrelation(values: Samples) -> Finding | None:
    """Is a round like the one before it? Lag-1 correlation of the ranks; p of a positive one.

    A negative one makes an interval too wide, which misleads nobody. Ranks, so that no spike
    decides (Wald and Wolfowitz, Annals of Mathematical Statistics 14, 1943); of independent rounds
    the mean is -1/n and the variance about 1/n. Size: by how much the interval is too narrow,
    sqrt((1 + r) / (1 - r)) - 1. That holds for a mean where the correlation fades as r, r**2, ...
    (Wilks, Statistical Methods in the Atmospheric Sciences, 3rd ed., section 5.2.4); for a median
    it is a little less.
    """
    logs = _varied(values)
    if logs is None:
        return None
    n = len(logs)
    ranks = ranked(logs) - (n + 1) / 2
    r = float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2))
    return Finding(
        statistic=r,
        p=math.erfc((r + 1 / n) * math.sqrt(n / 2)) / 2,
        size=math.sqrt((1 + r) / (1 - r)) - 1,
    )


def bimodality(values: Samples) -> Modes | None:
    """Do the values come in two groups? Ashman's D of the best split in two, less its error.

    D is the distance between the groups' means over the root mean square of their standard
    deviations (Ashman, Bird and Zepf, Astronomical Journal 108, 1994). The split is that of least
    variance within groups, of those that leave MODE_SHARE of the rounds and MIN_GROUP of them on
    either side. Choosing the best split of n draws from a single mode makes D too large: of uniform
    ones, the flattest mode there is, D * (1 - SEPARATION_ERROR / sqrt(n)) lies above 3.5 in 0.2 %
    (simulated, n = 12 to 240), where D itself does in half. Nothing here knows the clock: one with
    steps of more than MODE_DISTANCE gives modes as well.
    """
    logs = _varied(values)
    if logs is None:
        return None
    n = len(logs)
    ordered = np.sort(logs) - np.median(logs)  # squares of uncentred logarithms would lose digits
    sizes, sums, squares = np.arange(1, n), np.cumsum(ordered), np.cumsum(ordered**2)
    scatter = squares[-1] - sums[:-1] ** 2 / sizes - (sums[-1] - sums[:-1]) ** 2 / (n - sizes)
    least = max(MIN_GROUP, math.ceil(MODE_SHARE * n))
    cut = least + int(np.argmin(scatter[least - 1 : n - least]))
    low, high = ordered[:cut], ordered[cut:]
    spread = math.sqrt(float(low.var(ddof=1) + high.var(ddof=1)) / 2)
    distance = float(high.mean() - low.mean())
    separation = distance / spread if spread > 0 else math.inf
    return Modes(separation * (1 - SEPARATION_ERROR / math.sqrt(n)), math.expm1(distance))


def order_effect(differences: Samples, case_first: Order) -> Finding | None:
    """Does a ratio depend on who ran first? Mann and Whitney's test of both orders, two-sided.

    `differences` are log ratios; position i of `case_first` says who ran first in round i. The
    statistic is the test's z (`bench.ranks`). Size: the difference of the medians, case first less
    case second. None where the order of the rounds is not known, and below MIN_GROUP rounds of
    either order.
    """
    logs = _varied(differences)
    if logs is None or case_first is None or len(case_first) != len(logs):
        return None
    first = np.asarray(case_first, dtype=bool)
    ahead, behind = logs[first], logs[~first]
    if min(len(ahead), len(behind)) < MIN_GROUP:
        return None
    z = mann_whitney_z(ahead, behind)
    return Finding(
        statistic=z,
        p=_two_sided(abs(z)),
        size=math.expm1(float(np.median(ahead) - np.median(behind))),
    )


@dataclass(frozen=True)
class Rounds:
    """Paired rounds as logarithms."""

    durations: Logs  # of the case
    ratios: Logs | None  # baseline over case; None without a baseline
    case_first: Order


def _drifts(rounds: Rounds) -> bool:
    return _is_up(drift(rounds.durations), DRIFT_P, DURATION_DRIFT) or _is_up(
        drift(rounds.ratios), DRIFT_P, RATIO_DRIFT
    )


def _is_autocorrelated(rounds: Rounds) -> bool:
    """Durations only where nothing is paired: what both share leaves their ratio alone."""
    judged = rounds.durations if rounds.ratios is None else rounds.ratios
    return _is_up(autocorrelation(judged), AUTOCORRELATION_P, UNDERSTATED)


def _is_bimodal(rounds: Rounds) -> bool:
    return any(
        modes is not None and modes.separation > SEPARATION and modes.distance > MODE_DISTANCE
        for modes in (bimodality(rounds.durations), bimodality(rounds.ratios))
    )


def _has_order_effect(rounds: Rounds) -> bool:
    return _is_up(order_effect(rounds.ratios, rounds.case_first), ORDER_P, ORDER_DIFFERENCE)


# flag -> whether it is up
DIAGNOSTICS: dict[str, Callable[[Rounds], bool]] = {
    "drift": _drifts,
    "autocorrelated": _is_autocorrelated,
    "bimodal": _is_bimodal,
    "order_effect": _has_order_effect,
}


def raised(case_s: Samples, baseline_s: Samples, case_first: Order) -> tuple[str, ...]:
    """Which of DIAGNOSTICS are up?

    Position i of each argument is round i; durations in seconds. () below MIN_ROUNDS rounds and
    where a value is not a positive duration. Raises ValueError if there are not as many of the
    baseline as of the case, as then nothing is paired.
    """
    if case_s is not None and baseline_s is not None and len(case_s) != len(baseline_s):
        raise ValueError(
            f"got {len(case_s)} rounds of the case and {len(baseline_s)} of the baseline; "
            "pairs need one of each per round"
        )
    case, baseline = _logs(case_s), _logs(baseline_s)
    if case is None or (baseline is None and baseline_s is not None):
        return ()
    rounds = Rounds(case, None if baseline is None else baseline - case, case_first)
    return tuple(name for name, is_up in DIAGNOSTICS.items() if is_up(rounds))


def _is_up(found: Finding | None, p: float, size: float) -> bool:
    return found is not None and found.p < p and abs(found.size) > size


def _varied(values: Samples) -> Logs | None:
    """MIN_ROUNDS or more finite values that are not all equal."""
    if values is None or len(values) < MIN_ROUNDS:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    return numbers if np.isfinite(numbers).all() and np.ptp(numbers) > 0 else None


def _logs(durations_s: Samples) -> Logs | None:
    if durations_s is None or len(durations_s) == 0:
        return None
    numbers = np.asarray(durations_s, dtype=np.float64)
    return np.log(numbers) if np.isfinite(numbers).all() and numbers.min() > 0 else None


def _two_sided(z: float) -> float:
    return math.erfc(z / math.sqrt(2))
