"""The rows whose cause a reader asks for first."""

from __future__ import annotations

import math
from collections.abc import Iterable

from modescope.analysis.causes.verdicts import is_compared, is_loser, is_no_gain
from modescope.analysis.format import phrases
from modescope.analysis.format.phrases import Row


def most_important(rows: Iterable[Row], count: int) -> list[Row]:
    """The rows with the causes that matter most, each cause once.

    First what is slower by more than a tenth, the slowest first; then compiled, captured and
    autocast modes without gain; then gains, the largest first; then modes not in effect, the rest.
    """
    with_cause = sorted((row for row in rows if row["cause"]), key=_order)
    of_cause = {row["cause"].partition(";")[0]: row for row in reversed(with_cause)}
    return [row for row in with_cause if row in of_cause.values()][:count]


def _order(row: Row) -> tuple[int, float]:
    if phrases.not_in_effect(row) or not is_compared(row):
        return (3 if phrases.not_in_effect(row) else 4), 0.0
    size = -abs(math.log(row["speedup"]))
    if is_loser(row):
        return 0, size
    changes_code = row["compile_mode"] != "none" or row["graph"] or row["autocast"]
    return (1 if is_no_gain(row) and changes_code else 2), size
