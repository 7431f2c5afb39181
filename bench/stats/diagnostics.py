"""Tests whether rounds are independent draws from one distribution, as intervals assume.

Pure functions on numbers. They remove no rounds, they only raise flags. A flag needs an effect that
is both significant and large enough to matter, because a shared machine always drifts a little, and
over many rounds even a change of 0.1 % is significant. On pure noise, fewer than 4 % of results get
a flag.

`values` are logarithms of durations, or of their ratios, one per round in order. Their differences
are therefore relative changes. A test returns None if it cannot decide: with fewer than MIN_ROUNDS
rounds, a value that is not finite, or only equal values.

The rules for contention, throttling and pace treat an unknown value as undisturbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from modescope.bench.records.columns.timing import Contention
from modescope.bench.stats import orders
from modescope.bench.stats.estimates import (
    MIN_ROUNDS,
    WIDE,
    Samples,
    check_paired,
    finite,
    logarithms,
)
from modescope.bench.stats.orders import ORDER_P, CaseFirst, Logs, rank

DRIFT_P = 0.005
RATIO_DRIFT = 0.005  # 0.5 % between the first third of the rounds and the last
DURATION_DRIFT = 0.01  # more, because a slowdown of the machine moves it, unlike a ratio
AUTOCORRELATION_P = 0.005
UNDERSTATED = 0.2  # the interval is too narrow by a fifth
SEPARATION = 3.5  # a normal distribution cut in two has D = 2.6, a uniform one 3.46
SEPARATION_ERROR = 2.1  # over sqrt(n); see `bimodality`
MODE_SHARE = 0.15  # of the rounds; fewer are spikes, which do not move a median
MODE_DISTANCE = 0.01
ORDER_DIFFERENCE = 0.02  # 1 % to either side of the ratio
MIN_GROUP = 5  # rounds; fewer give no useful spread


@dataclass(frozen=True)
class Effect:
    """The result of a test: how large an effect is, and how probable it is by chance alone."""

    statistic: float
    p: float  # probability of a statistic as extreme by chance
    size: float  # of the effect, relative (0.02: 2 %)


@dataclass(frozen=True)
class Groups:
    """The distance between the two groups into which rounds are best split, and how clear it is."""

    separation: float  # Ashman's D less its error, which depends on the number of rounds
    distance: float  # between their means, relative
    boundary: float  # the upper group's values lie above it


def drift(values: Samples) -> Effect | None:
    """Tests for a rise or fall over time: Kendall's tau-b of values and round numbers, two-sided.

    `values`: logarithms of durations or ratios, by round. The size is the change from the median of
    the first third to that of the last third, above 0 for a rise. None below MIN_ROUNDS values, or
    if one is not finite or all are equal. Normal approximation with the variance for ties and a
    continuity correction (Kendall, Rank Correlation Methods, 4th ed., chapters 3 and 4; as a test
    of trend: Mann, Econometrica 13, 1945).
    """
    logs = _varying(values)
    if logs is None:
        return None
    n, third = len(logs), len(logs) // 3
    ties = np.unique(logs, return_counts=True)[1]
    pairs, tied_pairs = n * (n - 1) / 2, float(np.sum(ties * (ties - 1))) / 2
    place = np.arange(n)
    rising = np.count_nonzero((logs > logs[:, None]) & (place > place[:, None]))
    score = 2 * rising - (pairs - tied_pairs)  # rising pairs minus falling pairs
    tied = float(np.sum(ties * (ties - 1) * (2 * ties + 5)))
    deviation = math.sqrt((n * (n - 1) * (2 * n + 5) - tied) / 18)
    return Effect(
        statistic=score / math.sqrt(pairs * (pairs - tied_pairs)),
        p=math.erfc(max(0, abs(score) - 1) / deviation / math.sqrt(2)),  # two-sided
        size=math.expm1(float(np.median(logs[-third:]) - np.median(logs[:third]))),
    )


def autocorrelation(values: Samples) -> Effect | None:
    """Tests for a positive lag-1 correlation r of the rounds' ranks (one-sided).

    `values`: logarithms, by round; None for values for which `drift` returns None. The statistic is
    r. The size is how much too narrow a mean's interval is, sqrt((1 + r) / (1 - r)) - 1, if the
    correlation fades as r, r**2, ... (Wilks, Statistical Methods in the Atmospheric Sciences, 3rd
    ed., section 5.2.4); less for a median. A negative correlation makes an interval too wide, which
    is harmless. Ranks keep spikes from deciding (Wald and Wolfowitz, Annals of Mathematical
    Statistics 14, 1943). For independent rounds the mean of r is -1/n and its variance about 1/n.
    """
    logs = _varying(values)
    if logs is None:
        return None
    n = len(logs)
    ranks = rank(logs) - (n + 1) / 2
    r = float(np.sum(ranks[1:] * ranks[:-1]) / np.sum(ranks**2))
    return Effect(
        statistic=r,
        p=math.erfc((r + 1 / n) * math.sqrt(n / 2)) / 2,
        size=math.sqrt((1 + r) / (1 - r)) - 1,
    )


def bimodality(values: Samples) -> Groups | None:
    """Splits rounds into two groups, and returns how far apart these are.

    `values`: logarithms, by round; None for values for which `drift` returns None. The separation
    is Ashman's D minus its error. D is the distance between the groups' means over the root mean
    square of their standard deviations (Ashman, Bird and Zepf, Astronomical Journal 108, 1994). The
    split minimises the variance within groups and leaves at least MODE_SHARE of the rounds and
    MIN_GROUP rounds in each group. Choosing the best split of n draws from a single mode makes D
    too large: for the flattest mode, a uniform one, D exceeds 3.5 in half of all samples, but D *
    (1 - SEPARATION_ERROR / sqrt(n)) only in 0.2 % (simulated, n = 12 to 240). A processor clock
    that steps by more than MODE_DISTANCE also gives modes.
    """
    logs = _varying(values)
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
    return Groups(
        separation * (1 - SEPARATION_ERROR / math.sqrt(n)),
        math.expm1(distance),
        float(low[-1] + np.median(logs)),
    )


def order_effect(differences: Samples, case_first: CaseFirst) -> Effect | None:
    """Tests whether a ratio depends on which step ran first (Mann-Whitney test, two-sided).

    `differences` are log ratios; `case_first[i]` says whether the case ran first in round i. The
    statistic is the test's z (`bench.stats.orders`). The size is the relative change of the ratio:
    its median with the case first, ÷ that with the case second, - 1. None where `drift` returns
    None, if the order is unknown, or with fewer than `orders.MIN_ROUNDS_PER_ORDER` rounds of either
    order.
    """
    logs = _varying(differences)
    effect = None if logs is None else orders.order_effect(logs, case_first)
    return None if effect is None else Effect(effect.z, effect.p, math.expm1(effect.difference))


@dataclass(frozen=True)
class LogRounds:
    """The rounds that DIAGNOSTICS judge, as logarithms; element i is round i.

    `as_played`: ln(baseline time ÷ case time), or ln(case time) without a baseline. `values`: the
    same without a significant effect of the order within rounds (`bench.stats.orders`); their
    median is the result. `least_drift`: the smallest relative drift that is flagged. `case_first`:
    whether the case ran first; None if that is unknown or there is no baseline. `sides`: ln(time)
    of case and baseline; empty without a baseline.
    """

    values: Logs
    as_played: Logs  # the same with the effect of the order
    least_drift: float  # that is flagged
    case_first: CaseFirst
    sides: tuple[Logs, ...] = ()


def _is_bimodal(rounds: LogRounds) -> bool:
    split = bimodality(rounds.values)
    if split is not None and split.separation > SEPARATION and split.distance > MODE_DISTANCE:
        return True
    return any(_has_levels(side, rounds.values) for side in rounds.sides)


def _has_levels(side: Logs, ratios: Logs) -> bool:
    """Whether the times of a side have two levels further apart than WIDE, which ratios show, too.

    If both sides have levels of their own, as where time slices of another program fall into some
    blocks, ratios have three levels or more, which no split in two separates.
    """
    split = bimodality(side)
    if split is None or split.separation <= SEPARATION or split.distance <= WIDE - 1:
        return False
    is_upper = side > split.boundary
    apart = float(np.median(ratios[is_upper]) - np.median(ratios[~is_upper]))
    return abs(apart) > math.log(WIDE)


# flag -> whether it is raised
DIAGNOSTICS: dict[str, Callable[[LogRounds], bool]] = {
    "drift": lambda rounds: _is_up(drift(rounds.values), DRIFT_P, rounds.least_drift),
    "autocorrelated": lambda rounds: _is_up(
        autocorrelation(rounds.values), AUTOCORRELATION_P, UNDERSTATED
    ),
    "bimodal": _is_bimodal,
    "order_effect": lambda rounds: _is_up(
        order_effect(rounds.as_played, rounds.case_first), ORDER_P, ORDER_DIFFERENCE
    ),
}


def flags(case_s: Samples, baseline_s: Samples, case_first: CaseFirst) -> tuple[str, ...]:
    """Returns the names of the DIAGNOSTICS that are raised.

    With a baseline only the ratios are judged, and levels of one side that ratios show: what slows
    both steps leaves ratios unchanged, and the pace of the machine (`pace_rounds_s`) shows it. An
    effect of the order is removed from the ratios before the other tests, so it raises only its own
    flag. Durations are in seconds; index i is round i. Returns () below MIN_ROUNDS rounds, or if a
    value is not a positive duration. Raises ValueError if case and baseline have different numbers
    of rounds.
    """
    check_paired(case_s, baseline_s)
    case, baseline = logarithms(case_s), logarithms(baseline_s)
    if case is None or (baseline is None and baseline_s is not None):
        return ()
    rounds = LogRounds(case, case, DURATION_DRIFT, None)
    if baseline is not None:
        ratios = baseline - case
        result = orders.remove_order_effect(ratios, case_first)
        rounds = LogRounds(result, ratios, RATIO_DRIFT, case_first, (case, baseline))
    return tuple(name for name, is_up in DIAGNOSTICS.items() if is_up(rounds))


def _is_up(effect: Effect | None, p: float, size: float) -> bool:
    return effect is not None and effect.p < p and abs(effect.size) > size


def _varying(values: Samples) -> Logs | None:
    numbers = finite(values)
    if numbers is None or len(numbers) < MIN_ROUNDS or np.ptp(numbers) == 0:
        return None
    return numbers


GROWTH, GROWTH_TAU = 0.5, 0.8
"""The least rise of a call's time from the first third of the rounds to the last, and the least
rank correlation with time (Kendall's tau), that mean that calls do more and more work. Work that
grows by the same amount with every call has a tau near 1."""


def grows(durations_s: Samples, paces_s: Samples) -> bool:
    """Whether durations rise round by round, apart from the pace of the machine (`paces_s`)."""
    logs, pace = logarithms(durations_s), logarithms(paces_s)
    if logs is None:
        return False
    risen = drift(logs if pace is None or len(pace) != len(logs) else logs - pace)
    return risen is not None and risen.size > GROWTH and risen.statistic > GROWTH_TAU


WAIT_SHARE = 0.01
"""Share of the window that the measuring thread may wait for a core, or be stopped by a quota."""

OTHERS_SHARE = 0.05
"""Share of all cores that others may use. More of it costs caches, memory bandwidth and clock."""

OTHERS_FLOOR_CORES = 0.1
"""Others may always use this much of one core: on few cores, housekeeping alone takes it."""

IDLE_UNIT_S = 0.01
"""Unit of a core's idle time in /proc/stat: the CPU time of others is uncertain by as much."""

CLOCK_FALL = 0.03
"""The fall of the clock that counts as throttling: more than four steps of boost clocks, which are
15 MHz (nvidia-smi -q -d SUPPORTED_CLOCKS), 0.75 % of 2 GHz. Readings are good to 0.1 %."""

PACE_ENDS = (0.05, 0.95)
"""The quantiles of a run's paces that count as its fastest and slowest, because single rounds may
be interrupted, or read too short."""

SLOW_PACE = 1.25
"""A row is flagged if its pace takes longer than this many times the machine's best. In one row at
1.5 times the best, the speedup was 1.13; in other processes and in an interleaved comparison it was
0.90."""


def pace_ends_s(paces_s: Samples) -> tuple[float, float] | None:
    """Returns the times of a fixed piece of work in a run's fastest and slowest rounds.

    `paces_s`: its time in each round, in seconds. The result is their 5 % and 95 % quantiles; None
    if there are none, or if one is not finite or not positive.
    """
    known_s = finite(paces_s)
    if known_s is None or known_s.min() <= 0:
        return None
    fast_s, slow_s = np.quantile(known_s, PACE_ENDS)
    return float(fast_s), float(slow_s)


def at_full_pace(paces_s: Samples, best_s: float | None) -> list[bool] | None:
    """Whether each round was at full pace: not above SLOW_PACE × the machine's best.

    `paces_s`: the pace in each round; `best_s`: the best of other runs, if known. None if a pace
    is unknown.
    """
    ends_s = pace_ends_s(paces_s)
    if paces_s is None or ends_s is None:
        return None
    slow_s = SLOW_PACE * min(ends_s[0], best_s or ends_s[0])
    return [bool(pace_s <= slow_s) for pace_s in paces_s]


def is_contended(watch: Contention, gpu_processes: int | None = None) -> bool:
    """Whether other programs used enough of the cores, or of the GPU, to affect the measurement.

    Context switches do not count, as every system has some; a long interruption shows as waiting.
    """
    if gpu_processes:
        return True
    if not watch.watched_s:
        return False
    waits_s = (watch.cpu_wait_s or 0.0, watch.cgroup_throttled_s or 0.0)
    cores = watch.machine_cores or 0
    surely_s = (watch.others_cpu_s or 0.0) - IDLE_UNIT_S * cores
    others_cores = surely_s / watch.watched_s
    allowed_cores = max(OTHERS_SHARE * cores, OTHERS_FLOOR_CORES)
    return max(waits_s) / watch.watched_s > WAIT_SHARE or others_cores > allowed_cores


def apart(one_hz: float | None, other_hz: float | None) -> bool:
    """Whether two readings of a clock differ by more than CLOCK_FALL; no if one is unknown."""
    if one_hz is None or other_hz is None:
        return False
    return min(one_hz, other_hz) < (1 - CLOCK_FALL) * max(one_hz, other_hz)


def is_throttled(
    device_clock_hz: Sequence[float] | None, throttle_reasons: Sequence[str] | None
) -> bool:
    """Whether the device reported a reason for slowing down, or its clock fell.

    A reading is compared with the highest before it, because the first of an idle GPU may be low.
    """
    if throttle_reasons is not None and len(throttle_reasons):
        return True
    readings = [] if device_clock_hz is None else list(device_clock_hz)
    highest = accumulate(readings, max)
    return any(now < (1 - CLOCK_FALL) * high for now, high in zip(readings, highest, strict=True))
