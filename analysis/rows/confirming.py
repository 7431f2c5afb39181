"""Compares the two processes of a mode that was measured once more to confirm an answer."""

from __future__ import annotations

from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.stats.estimates import Estimate, ends

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
    is_apart = faster.value > slower.value * (1 + APART) and ends(faster)[0] > ends(slower)[1]
    if faster_row is None:
        return is_apart
    return is_apart and ends(faster)[1] >= ends(required(faster_row["speedup"]))[0]


def stays_ahead(row: Row, other: Row) -> bool:
    """Whether the slower of a row's two processes is surely faster than both of another row."""
    slower, faster = (
        [speedup for speedup in (each["speedup"], again(each)) if speedup is not None]
        for each in (row, other)
    )
    return min(ends(each)[0] for each in slower) > max(ends(each)[1] for each in faster)


def again(row: Row) -> Estimate | None:
    """Returns the speedup that a second process measured; None without one, or its interval."""
    second = row["confirming_speedup"]
    return second if second is not None and second.low is not None else None
