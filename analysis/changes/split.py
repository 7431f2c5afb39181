"""The best split of a series in two levels, and whether chance makes as good a one.

A step is looked for at every place, so the best one is held against the best one of simulated
series without a step, not against a table of t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from modescope.analysis.changes.welch import Change, Numbers

LEAST = 2
"""Sets on each side of a step, so that a single odd set is none."""

SHORTEST = 2 * LEAST
ALPHA = 0.05
"""Share of reports, of all their rows together, in which chance makes a step."""

_SERIES = 200_000  # simulated without a step
_AT_ONCE = 20_000
_SEED = 1


@dataclass(frozen=True)
class Splits:
    """The best split of each series: the number of sets before it, and the change there."""

    before: Numbers
    change: Change

    @property
    def strength(self) -> Numbers:
        """The size of the change in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            strength = np.abs(self.change.value) / self.change.error
        return np.nan_to_num(strength, nan=0.0, posinf=np.inf)


def best(series: Numbers, floor: Numbers | float = 0.0) -> Splits:
    """The split with the largest t of each series, along the last axis, of SHORTEST or more values.

    The spread is pooled over both sides; `floor`: the least variance of a value. Raises ValueError
    for a shorter series.
    """
    count = series.shape[-1]
    if count < SHORTEST:
        raise ValueError(f"got {count} values; a step needs {LEAST} on each side")
    places = range(LEAST, count - LEAST + 1)
    changes = [_at(series, place, np.asarray(floor)) for place in places]
    values, errors = (
        np.stack([getattr(one, name) for one in changes], -1) for name in ("value", "error")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        chosen = np.nan_to_num(np.abs(values) / errors, nan=0.0).argmax(-1)[..., None]
    value, error = (np.take_along_axis(each, chosen, -1)[..., 0] for each in (values, errors))
    freedom = np.full_like(value, count - 2)
    return Splits(chosen[..., 0] + float(LEAST), Change(value, error, freedom))


def _at(series: Numbers, place: int, floor: Numbers) -> Change:
    """The change at one place."""
    count = series.shape[-1]
    sides = series[..., :place], series[..., place:]
    means = [side.mean(-1) for side in sides]
    squares = sum(
        ((side - mean[..., None]) ** 2).sum(-1) for side, mean in zip(sides, means, strict=True)
    )
    variance = np.maximum(squares / (count - 2), floor)
    error = np.sqrt(variance * (1 / place + 1 / (count - place)))
    return Change(means[1] - means[0], error, np.full_like(error, count - 2))


def threshold(count: int, rows: int) -> float:
    """The strength that the best of `rows` series of `count` values exceeds by chance in 5 %."""
    strengths = _of_chance(count)
    share = 1 - (1 - ALPHA) ** (1 / rows)
    return float(np.quantile(strengths, 1 - share))


@cache
def _of_chance(count: int) -> Numbers:
    """The strengths of the best splits of series without a step."""
    source = np.random.default_rng(_SEED)
    parts = [
        best(source.normal(size=(_AT_ONCE, count))).strength for _ in range(_SERIES // _AT_ONCE)
    ]
    return np.concatenate(parts)
