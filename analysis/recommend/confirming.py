"""Compares the two processes of a mode that was measured once more to confirm an answer."""

from __future__ import annotations

from modescope.analysis.estimates import high, low
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import Estimate

APART = 0.03
"""Two processes contradict each other if they differ by more and their intervals do not overlap.

Paired speedups of the same code differ between processes by 0.4 % as a rule.
"""


def contradicted(row: Row, faster_row: Row | None = None) -> bool:
    """Whether a second process of a row's mode contradicts the first.

    It does not if even the faster of the two stays below `faster_row`, which has a speedup over the
    same baseline.
    """
    second = again(row)
    if second is None or row["replicates"] > 1:  # several say more than one other
        return False
    pair = (required(row["speedup"]), second)
    slower, faster = sorted(pair, key=lambda speedup: speedup.value)
    is_apart = faster.value > slower.value * (1 + APART) and low(faster) > high(slower)
    return is_apart and not (faster_row and high(faster) < low(faster_row["speedup"]))


def stays_ahead(row: Row, other: Row) -> bool:
    """Whether the slower of a row's two processes is surely faster than both of another row."""
    slower, faster = (
        [speedup for speedup in (each["speedup"], again(each)) if speedup is not None]
        for each in (row, other)
    )
    return min(map(low, slower)) > max(map(high, faster))


def again(row: Row) -> Estimate | None:
    """Returns the speedup that a second process measured; None without one, or its interval."""
    second = row["confirming_speedup"]
    return second if second is not None and second.low is not None else None
