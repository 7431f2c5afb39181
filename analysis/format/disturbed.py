"""What flags say of a whole table: a legend of its approximate figures, and a banner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.phrases import Row

CONDITIONS = {
    "contended": "other programs competed for the processor",
    "throttled": "the clock was lowered",
    "no_steady_state": "times had not settled after the warm-up",
}
"""Flags of the machine, and what happened to it."""

NEEDED = ("status", "budget_rank", "flags", "pace_slowest")
"""The columns that `banner` reads."""

SLOW_PACE = 0.8
"""A machine slower than this share of its own speed, in one round of twenty, was disturbed."""

MOST = 0.5  # of the rows


def legend(rows: Sequence[Row]) -> str:
    """What `~` before a figure means, with the flags that put it there; empty without any."""
    counts = Counter(flag for row in rows for flag in approximate(row))
    if not counts:
        return ""
    named = ", ".join(f"{flag} {numbers.counted(n, 'row', 'rows')}" for flag, n in counts.items())
    return f"~ an absolute figure of a flagged row ({named}); the paired speedup is not affected"


def approximate(row: Row) -> list[str]:
    """The flags that do not touch the speedup."""
    return [flag for flag in phrases.flags(row) if flag not in phrases.flags(row, "speedup")]


def banner(rows: Sequence[Row]) -> str:
    """What disturbed more than MOST of the measured rows, and what to do; empty if nothing did."""
    measured = [row for row in rows if row["status"] == "ok" and not phrases.is_smoke(row)]
    happened = [text for text, n in _happened(measured).items() if n > MOST * len(measured)]
    if not happened:
        return ""
    return (
        f"The machine was disturbed while most rows were measured: {'; '.join(happened)}. Speedups "
        "are paired and withstand that, but absolute times are approximate, and small differences "
        "may stay undecided. Stop other programs, or use an idle machine, and measure again."
    )


def _happened(rows: Sequence[Row]) -> dict[str, int]:
    """What happened, and in how many rows."""
    counts = {
        text: sum(flag in phrases.flags(row) for row in rows) for flag, text in CONDITIONS.items()
    }
    paces = [row["pace_slowest"] for row in rows if row["pace_slowest"] is not None]
    slow = [pace for pace in paces if pace < SLOW_PACE]
    if slow:
        counts[f"it ran at down to {numbers.share(min(slow), 1)} of its speed"] = len(slow)
    return counts
