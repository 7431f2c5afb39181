"""Which modes do less work than eager, and what that gained, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis import numbers, replicates, words
from analysis.gains import Pair, pairs
from analysis.words import Row
from bench import stats

CLOCK_MARGIN = 0.01
"""Work of two processes compares if the GPU ran at the same clock in both, to two of its steps of
15 MHz (nvidia-smi -q -d SUPPORTED_CLOCKS): kernels that compute are as much faster as the clock."""

_UNLIKE = "unlike clocks"
_TITLES = {
    "faster": "less work than in plain eager",
    "slower": "more work",
    "equivalent": f"as much within ±{numbers.whole_percent(stats.MARGIN)}",
    "inconclusive": "the intervals leave open whether less",
    _UNLIKE: "open, as the clock of the GPU was another in plain eager (by more than "
    f"{numbers.whole_percent(CLOCK_MARGIN)})",
}


def reading(section: pd.DataFrame) -> str | None:
    """Which modes do less work, and what did that gain? None where nothing is known."""
    found = pairs(section)
    if not found:
        return None
    told: dict[str, list[str]] = {}
    for pair in found:
        told.setdefault(_kind(pair), []).append(f"{words.variant(pair.row)} ({_numbers(pair)})")
    sentence = "; ".join(
        f"{title}: {', '.join(told[name])}" for name, title in _TITLES.items() if name in told
    )
    return f"{sentence[0].upper()}{sentence[1:]}.{_caution(found)}"


def _kind(pair: Pair) -> str:
    if _clocks_differ(pair):
        return _UNLIKE
    return stats.verdict(pair.gain) or "inconclusive"


def _clocks_differ(pair: Pair) -> bool:
    own_hz, eager_hz = _clock_hz(pair.row), _clock_hz(pair.reference)
    if own_hz is None or eager_hz is None:
        return False
    return abs(own_hz / eager_hz - 1) > CLOCK_MARGIN


def _clock_hz(row: Row) -> float | None:
    """The clock while device time was read: between the last two moments at which it was asked."""
    readings = row["device_clock_hz"]
    if readings is None or len(readings) < 2:
        return None
    return float(readings[-2] + readings[-1]) / 2


def _caution(found: Sequence[Pair]) -> str:
    """Device times have no pair in their process, so what differs between processes is in them."""
    rows = [row for pair in found for row in (pair.row, pair.reference) if words.on_cuda(row)]
    if all(row["replicates"] >= replicates.ENOUGH for row in rows):
        return ""
    return (
        " An interval holds within each process that was measured, and others of the same code may "
        f"differ by more: see with replicates={replicates.ENOUGH}."
    )


def _numbers(pair: Pair) -> str:
    parts = [numbers.ratio(pair.gain)]
    counts = pair.row["kernels"], pair.reference["kernels"]
    if None not in counts:
        own = numbers.counted(counts[0], "kernel", "kernels")
        parts.append(f"{own} for {numbers.count(counts[1])}")
    if (beyond := pair.row["launch_gain"]) is not None:
        overhead = "launching" if words.on_cuda(pair.row) else "dispatch"
        alone = numbers.factor(pair.row["fusion_speedup"])
        parts.append(f"which alone gains {alone}, and {overhead} {numbers.factor(beyond)}")
    return ", ".join(parts)
