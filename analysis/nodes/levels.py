"""One level for each worker, from all its readings: what is compared where workers are the unit.

What slows one worker's job (the hour, heat, another user of the machine) slows all its processes,
so their number says nothing about the next job on the same node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]

ENOUGH = 1e-8
"""Share of the first error (a sum of squares) at which the solution is exact enough."""


@dataclass(frozen=True)
class Readings:
    """Logarithms of times, and where each was read: arrays of one length.

    Places and works are numbers from 0; only times of equal works are compared.
    """

    places: Codes
    works: Codes
    logs: Numbers


def levels(readings: Readings, workers: Codes) -> Readings:
    """A level for each worker 0 ... max(workers), each of which was in one place.

    Least squares with a level for each work and each worker, so that workers that measured other
    works can be compared: in place of works are sets of workers that works link. A worker with one
    reading keeps it, but for a constant of its work: with a worker for each process, nothing
    changes.
    """
    count = int(workers.max(initial=-1)) + 1
    place_of = np.zeros(count, dtype=np.int64)
    place_of[workers] = readings.places
    sets = _sets(readings.works, workers, count)
    return Readings(place_of, sets, _least_squares(readings, workers, count))


def _sets(works: Codes, workers: Codes, count: int) -> Codes:
    """A number for each worker, equal where works link them."""
    found = np.arange(count, dtype=np.int64)
    while True:
        least = np.full(int(works.max(initial=-1)) + 1, count)
        np.minimum.at(least, works, found[workers])
        linked = found.copy()
        np.minimum.at(linked, workers, least[works])
        if (linked == found).all():
            return np.unique(found, return_inverse=True)[1].astype(np.int64)
        found = linked


def _least_squares(readings: Readings, workers: Codes, count: int) -> Numbers:
    """The levels of workers beside those of works, by conjugate gradients."""
    works, of_work = readings.works, np.maximum(np.bincount(readings.works), 1)

    def of_workers(values: Numbers) -> Numbers:
        """Sums over each worker's readings of how they differ from the mean of their work."""
        means = np.bincount(works, values) / of_work
        return np.bincount(workers, values - means[works], count).astype(np.float64)

    found = np.zeros(count)
    rest = of_workers(readings.logs)
    step, error = rest.copy(), float(rest @ rest)
    enough = error * ENOUGH**2
    for _ in range(count):  # so many steps are exact but for rounding
        if error <= enough:
            break
        moved = of_workers(step[workers])
        along = float(step @ moved)
        if along <= 0:  # only rounding is left
            break
        found, rest = found + error / along * step, rest - error / along * moved
        before, error = error, float(rest @ rest)
        step = rest + error / before * step
    return found
