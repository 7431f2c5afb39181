"""How much longer the same work takes in one place than in the others, with intervals.

A reading is a logarithm of one process's time; processes run at different times, so nothing is
paired. Each reading in a place is compared with the mean of the other places' readings of the same
work. What these differences scatter by contains everything that differs between processes and
between works; the error follows from it, never from the rounds within a process.

Processes of one worker share its job and its hour. So a place is judged by the levels of its
workers, compared in the same way, once it has enough of them. Else what is found holds for the
jobs that ran there, and not for the place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from modescope.analysis.changes import power, welch
from modescope.analysis.changes.verdicts import LEAST_PROCESSES
from modescope.analysis.changes.welch import Change
from modescope.analysis.nodes.levels import Numbers, Readings
from modescope.bench.stats.estimates import ALPHA, MARGIN

Flags = NDArray[np.bool_]

LIMIT = welch.log_margin(MARGIN)

SLOWER, FASTER, ALIKE, UNDECIDED, TOO_FEW = (
    "slower", "faster", "alike", "undecided", "too few processes",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One place against the others: logarithms, and the verdict.

    The intervals of all places hold together in 95 % of studies (Bonferroni). None where there are
    fewer than LEAST_PROCESSES readings of works that another place measured, too.
    """

    readings: int
    verdict: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    detectable: float | None = None  # a difference that 80 % of such studies would name
    workers: int = 0  # whose readings these are; a process without a worker is one of its own
    by_workers: bool = False  # whether it holds for the place, not only for the jobs there


@dataclass(frozen=True)
class _Cells:
    """Sums over readings: of each place and work (places, works), or of each work (works,)."""

    counts: Numbers
    sums: Numbers
    squares: Numbers


def judged(readings: Readings, workers: Readings) -> list[Difference]:
    """A difference for each place: by workers where these are enough, else by readings.

    `workers`: what `levels` found.
    """
    return [
        replace(
            one if by_workers.verdict == TOO_FEW else by_workers,
            readings=one.readings,
            workers=by_workers.readings,
            by_workers=by_workers.verdict != TOO_FEW,
        )
        for one, by_workers in zip(differences(readings), differences(workers), strict=True)
    ]


def differences(readings: Readings) -> list[Difference]:
    """A difference for each place 0 ... max(places).

    Places that turn out slower are taken out of what the others are compared with, until no further
    one is found: else one slow place would hide another.
    """
    if len(readings.logs) == 0:
        return []
    cells = _cells(readings)
    count = len(cells.counts)
    usual = np.ones(count, dtype=np.bool_)
    while True:
        found = [_difference(cells, place, usual, ALPHA / count) for place in range(count)]
        still = usual & np.array([one.verdict != SLOWER for one in found])
        if (still == usual).all():
            return found
        usual = still


def spread_within(readings: Readings) -> float | None:
    """Standard deviation between processes of one work in one place; None without a second one."""
    if len(readings.logs) == 0:
        return None
    squares, freedom = _scatter(_cells(readings))
    return float(np.sqrt(squares / freedom)) if freedom > 0 else None


def spread_between(readings: Readings) -> float | None:
    """Standard deviation of the levels of places with enough readings; None below two of them.

    That of their means, less what these differ by only because the readings in a place do.
    """
    if len(readings.logs) == 0:
        return None
    cells = _cells(readings)
    every = np.ones(len(cells.counts), dtype=np.bool_)
    found = [_difference(cells, place, every, ALPHA) for place in range(len(every))]
    known = [(one.value, one.readings) for one in found if one.value is not None]
    count, (squares, freedom) = len(known), _scatter(cells)
    if count < 2 or freedom <= 0:
        return None
    # of `count` equal places, one that is off differs from the others' mean, which lacks it, by
    # count / (count - 1) times what it differs from the mean of all
    means = float(np.std([value for value, _ in known], ddof=1)) * (count - 1) / count
    noise = squares / freedom * float(np.mean([1 / own for _, own in known]))
    return float(np.sqrt(max(0.0, means**2 - noise)))


def _cells(readings: Readings) -> _Cells:
    places, works, logs = readings.places, readings.works, readings.logs
    shape = (int(places.max()) + 1, int(works.max()) + 1)
    means = np.bincount(works, logs) / np.maximum(np.bincount(works), 1)
    centred = logs - means[works]  # squares of large sums would lose digits
    flat = np.ravel_multi_index((places, works), shape)
    weights = (np.ones_like(centred), centred, centred**2)
    counts, sums, squares = (
        np.bincount(flat, each, shape[0] * shape[1]).astype("float64").reshape(shape)
        for each in weights
    )
    return _Cells(counts, sums, squares)


def _scatter(cells: _Cells) -> tuple[float, float]:
    """Squared deviations from the mean of each cell, and their degrees of freedom."""
    filled = cells.counts > 0
    inside = cells.squares[filled] - cells.sums[filled] ** 2 / cells.counts[filled]
    return max(0.0, float(inside.sum())), float((cells.counts[filled] - 1).sum())


def _difference(cells: _Cells, place: int, usual: Flags, alpha: float) -> Difference:
    """One place against the others among the `usual` ones; against all others if it is alone."""
    others = usual & (np.arange(len(usual)) != place)
    if not others.any():
        others = np.arange(len(usual)) != place
    mine, rest = (
        _Cells(*(each[chosen].sum(0) for each in (cells.counts, cells.sums, cells.squares)))
        for chosen in ([place], others)
    )
    readings = int(mine.counts[rest.counts > 0].sum())
    change = _change(mine, rest) if readings >= LEAST_PROCESSES else None
    if change is None:
        return Difference(readings, TOO_FEW)
    value, half = float(change.value), float(welch.quantile(change.freedom, alpha) * change.error)
    return Difference(
        readings,
        _verdict(value - half, value + half),
        *(value, value - half, value + half),
        float(power.detectable(change, LIMIT, alpha)),
    )


def _change(place: _Cells, rest: _Cells) -> Change | None:
    """The mean difference of a place's readings from the rest of the places, with its error.

    The spread is pooled over all places, and that of the place itself counts where it is larger:
    a place that is disturbed now and then is not accused by the calm of the others. None where no
    work has two readings in the rest.
    """
    outside, freedom_outside = _scatter(rest)
    if freedom_outside <= 0:
        return None
    shared = (place.counts > 0) & (rest.counts > 0)
    mine, others = place.counts[shared], rest.counts[shared]
    level, readings = rest.sums[shared] / others, mine.sum()
    value = (place.sums[shared] - mine * level).sum() / readings
    inside = place.squares[shared] - 2 * level * place.sums[shared] + mine * level**2
    own = max(0.0, float(inside.sum() - readings * value**2))
    freedom = freedom_outside + readings - 1
    spread = max((outside + own) / freedom, own / (readings - 1))
    of_level = outside / freedom_outside * float(((mine / readings) ** 2 / others).sum())
    parts = [
        (np.asarray(spread / readings), np.asarray(freedom)),
        (np.asarray(of_level), np.asarray(freedom_outside)),
    ]
    return welch.with_error(np.asarray(value), parts)


def _verdict(low: float, high: float) -> str:
    if low > LIMIT:
        return SLOWER
    if high < -LIMIT:
        return FASTER
    return ALIKE if low > -LIMIT and high < LIMIT else UNDECIDED
