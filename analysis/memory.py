"""What the memory of a mode is made of: its parts add up to its peak."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis import style, words
from analysis.rows import trusted
from analysis.words import Row

Stack = list[tuple[str, float]]  # parts of a bar: name in style.SOURCES, bytes


def peak_bytes(rows: pd.DataFrame) -> pd.Series:
    """How much does a steady call need in all, above an empty process?"""
    peak: pd.Series = rows["resident_bytes"] + rows["step_peak_bytes"]
    return peak.where(rows["status"] == "ok").astype("float64")


def charted(section: pd.DataFrame) -> list[Row]:
    """The trusted rows of a SECTION whose peak is known, in the order of figures."""
    rows = words.as_rows(trusted(section))
    return sorted((row for row in rows if row["peak_bytes"] is not None), key=style.order)


def stack(row: Row) -> Stack:
    """The sources of a peak: first what stays between calls, then what a call takes.

    Casted copies that backward needs are among the saved activations (`saved_activation_bytes`),
    so they have a part of their own only where nothing is saved. A replayed graph takes nothing
    from the allocator, whatever its kernels write: that is in the pool (`graph_pool_bytes`).
    """
    left = row["resident_bytes"]
    found: Stack = []
    for name, size_bytes in (("weights", row["weights_bytes"]), ("inputs", row["input_bytes"])):
        part = min(size_bytes or 0, left)
        found.append((name, part))
        left -= part
    found.append(("kept", left))
    left = row["step_peak_bytes"]
    saved, copies = row["saved_activation_bytes"] or 0, row["autocast_copy_bytes"] or 0
    for name, size_bytes in (("saved", saved), ("copies", 0 if saved else copies)):
        part = min(size_bytes, left)
        found.append((name, part))
        left -= part
    return [(name, part) for name, part in (*found, ("step", left)) if part]


def setup_bytes(row: Row) -> float | None:
    """The peak of the first call on the scale of the stack; None where it was not the allocator's.

    It was read above what was held before that call: weights and inputs. On a CPU it is the growth
    of the process instead, which holds the compiler as well and does not compare.
    """
    parts = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    if None in parts or row["setup_peak_note"] is not None or not words.on_cuda(row):
        return None
    return float(sum(parts))


def reading(section: pd.DataFrame) -> str | None:
    """Which mode needs least, and who saves activations? None where nothing is charted.

    What holds a graph pool is not ranked: a part of its peak is there, and how much is not known.
    """
    rows = charted(section)
    if not rows:
        return None
    pooled = [row for row in rows if row["graph_pool_bytes"]]
    told = [_ranked([row for row in rows if row not in pooled]), _activations(rows)]
    told += (
        [f"a graph pool besides the peak: {_each(pooled, 'graph_pool_bytes')}"] if pooled else []
    )
    sentence = "; ".join(filter(None, told))
    return f"{sentence[0].upper()}{sentence[1:]}.{_setup(rows)}"


def _ranked(rows: Sequence[Row]) -> str:
    peaks = sorted({row["peak_bytes"] for row in rows})
    if not peaks:
        return ""
    if len(peaks) == 1:
        return f"the same peak: {_at(rows, peaks[0])}"
    return f"least at its peak: {_at(rows, peaks[0])}; most: {_at(rows, peaks[-1])}"


def _at(rows: Sequence[Row], peak_bytes: float) -> str:
    names = [words.variant(row) for row in rows if row["peak_bytes"] == peak_bytes]
    return f"{', '.join(names)}, {words.size(peak_bytes)}"


def _activations(rows: Sequence[Row]) -> str:
    saving = [row for row in rows if row["saved_activation_bytes"]]
    if not saving:
        return "none is known to save activations for a backward"
    return f"saved for a backward: {_each(saving, 'saved_activation_bytes')}"


def _each(rows: Sequence[Row], column: str) -> str:
    return ", ".join(f"{words.variant(row)} {words.size(row[column])}" for row in rows)


def _setup(rows: Sequence[Row]) -> str:
    apart = [row for row in rows if row["setup_peak_bytes"] and setup_bytes(row) is None]
    if not apart:
        return ""
    most = max(apart, key=lambda row: row["setup_peak_bytes"])
    return (
        f" Setup is not charted: {words.size(most['setup_peak_bytes'])} at most, by "
        f"{words.variant(most)} ({most['setup_peak_note'] or 'above an unknown start'})."
    )
