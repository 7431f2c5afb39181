"""What flags say of a whole table: a legend of its approximate figures, and a banner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row

CONDITIONS = {
    "contended": ("other programs competed for the processor", "stop other programs"),
    "throttled": (
        "the clock was lowered because of heat or a power limit",
        "let the machine cool down",
    ),
    "no_steady_state": (
        "times had not settled after the warm-up",
        "choose a longer warm-up (budget=thorough)",
    ),
}
"""Flag -> what happened to the machine, and what to do before measuring again."""

NEEDED = ("status", "budget_rank", "flags")
"""The columns that `banner` reads."""

MOST = 0.5  # of the rows


def legend(rows: Sequence[Row]) -> str:
    """What `~` before a figure means, with the flags that put it there; empty without any."""
    counts = Counter(
        flag
        for row in rows
        for flag in phrases.flags(row)
        if flag not in phrases.flags(row, "speedup")
    )
    if not counts:
        return ""
    named = ", ".join(f"{flag} {numbers.counted(n, 'row', 'rows')}" for flag, n in counts.items())
    return f"~ marks a figure that a flag makes approximate ({named}); the speedup is not affected"


def banner(rows: Sequence[Row]) -> str:
    """What disturbed more than MOST of the measured rows, and what to do; empty if nothing did."""
    measured = [row for row in rows if row["status"] == "ok" and not phrases.is_smoke(row)]
    counts = Counter(flag for row in measured for flag in phrases.flags(row))
    conditions = [one for flag, one in CONDITIONS.items() if counts[flag] > MOST * len(measured)]
    if not conditions:
        return ""
    happened, remedies = map(phrases.listed, zip(*conditions, strict=True))
    return (
        f"The machine was disturbed while most rows were measured: {happened}. Speedups are paired "
        "and withstand that, but absolute times are approximate, and small differences may stay "
        f"undecided. Before you measure again, {remedies}."
    )
