"""What the memory of a mode is made of: its parts add up to its peak.

A training step drops its gradients before it begins and makes them anew, so they are held between
two steps and are away while forward saves activations. What is there at the very peak is not
known: of a step, the stack of its peak shows the activations at their most, and gradients are part
of the rest; what is held between two steps has a stack of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from analysis import numbers, style, words
from analysis.rows import trusted
from analysis.words import Row

Stack = list[tuple[str, float]]  # parts of a bar: name in style.SOURCES, bytes
Sized = tuple[str, float | None]  # the same where the size may be unknown

# part of a bar -> the column that it is: of what is held between calls, and of what a call takes
_HELD = {
    "weights": "weights_bytes",
    "inputs": "input_bytes",
    "state": "optimizer_state_bytes",
    "gradients": "gradient_bytes",
}
_COLUMNS = _HELD | {"saved": "saved_activation_bytes", "copies": "autocast_copy_bytes"}


def peak_bytes(rows: pd.DataFrame) -> pd.Series:
    """How much does a steady call need in all, above an empty process?"""
    needed = ["device", "graph_pool_bytes", "graph_pool_live_bytes"]
    free = [pool_free_bytes(row) for row in words.as_rows(rows[needed])]
    pool = pd.Series(free, index=rows.index, dtype="float64")
    peak: pd.Series = rows["resident_bytes"] + rows["step_peak_bytes"] + pool
    return peak.where(rows["status"] == "ok").astype("float64")


def pool_free_bytes(row: Row) -> float | None:
    """What a graph's pool holds beside live tensors: room for its replays and for nothing else.

    A replay writes there without asking the allocator, so it is in no peak of a call. Counted in
    the allocator's whole segments. 0 where there is no pool, None where its live part is unknown.
    """
    pool, live = row["graph_pool_bytes"], row["graph_pool_live_bytes"]
    if pool == 0 or not words.on_cuda(row):
        return 0.0
    return None if None in (pool, live) else float(pool - live)


def charted(section: pd.DataFrame) -> list[Row]:
    """The trusted rows of a SECTION whose peak is known, in the order of figures."""
    rows = words.as_rows(trusted(section))
    return sorted((row for row in rows if row["peak_bytes"] is not None), key=style.order)


def stack(row: Row) -> Stack:
    """The sources of a peak: first what stays between calls, then what a call takes.

    Casted copies that backward needs are among the saved activations (`saved_activation_bytes`),
    so they have a part of their own only where nothing is saved. A replayed graph takes nothing
    from the allocator: what its kernels write is among the free parts of its pool.
    """
    held = dict(_filled(row["resident_bytes"], _held(row), "kept"))
    dropped = held.pop("gradients", 0) if drops_gradients(row) else 0
    saved, copies = row["saved_activation_bytes"], row["autocast_copy_bytes"]
    taken = (("saved", saved), ("copies", None if saved else copies))
    return [
        *held.items(),
        *((("pool", free),) if (free := pool_free_bytes(row)) else ()),
        *_filled(row["step_peak_bytes"] + dropped, taken, "step"),
    ]


def lanes(row: Row) -> list[Stack]:
    """The stack of the peak; where gradients are away at the peak, also that between two steps."""
    between = _filled(row["resident_bytes"], _held(row), "kept")
    return [stack(row), between] if drops_gradients(row) else [stack(row)]


def without(row: Row, part: str, at_peak: bool) -> float | None:
    """The bytes of a part that a bar does not have: 0, or None where they are not known."""
    if part == "gradients" and at_peak and drops_gradients(row):
        return None  # some of them are there at the peak, within the rest
    return 0 if part not in _COLUMNS or row[_COLUMNS[part]] is not None else None


def drops_gradients(row: Row) -> bool:
    """Whether the room of gradients is used for something else while forward runs.

    Not where a pool keeps it: what CUDA graphs write has its place whether it is needed or not.
    """
    return bool(row["gradient_bytes"]) and not (words.on_cuda(row) and row["graph_pool_bytes"])


def _held(row: Row) -> tuple[Sized, ...]:
    return tuple((part, row[column]) for part, column in _HELD.items())


def _filled(whole: float, parts: Sequence[Sized], rest: str) -> Stack:
    """The known ones of `parts` as far as `whole` holds them, and what they leave of it."""
    found: Stack = []
    for name, size_bytes in parts:
        part = min(size_bytes or 0, whole)
        found.append((name, part))
        whole -= part
    return [(name, part) for name, part in (*found, (rest, whole)) if part]


def setup_bytes(row: Row) -> float | None:
    """The least that the peak of the first call can have been, on the scale of the stack.

    It was read above what was held before that call. Weights and inputs were, and so was what the
    process had kept by then (the workspace of cuBLAS, tensors to check results with), of which
    nothing is known: it is left out. So what lies below the peak of a steady call says nothing,
    and None is returned; as it is where the peak was not the allocator's. On a CPU it is the
    growth of the process, which holds the compiler as well and does not compare.
    """
    least = _setup_on_scale(row)
    return None if least is None or least < row["peak_bytes"] else least


def _setup_on_scale(row: Row) -> float | None:
    parts = (row["setup_peak_bytes"], row["weights_bytes"], row["input_bytes"])
    if None in parts or row["setup_peak_note"] is not None or not words.on_cuda(row):
        return None
    return float(sum(parts))


def reading(section: pd.DataFrame) -> str | None:
    """Which mode needs least, and who saves activations? None where nothing is charted."""
    rows = charted(section)
    if not rows:
        return None
    told = [
        _ranked(rows), _activations(rows), _between_steps(rows), _pools(rows), _unknown(section),
    ]  # fmt: skip
    sentence = "; ".join(filter(None, told))
    return f"{sentence[0].upper()}{sentence[1:]}.{_setup(rows)}"


def _ranked(rows: Sequence[Row]) -> str:
    peaks = sorted({row["peak_bytes"] for row in rows})
    if len(peaks) == 1:
        return f"the same peak: {_at(rows, peaks[0])}"
    return f"least at its peak: {_at(rows, peaks[0])}; most: {_at(rows, peaks[-1])}"


def _at(rows: Sequence[Row], peak_bytes: float) -> str:
    names = [words.variant(row) for row in rows if row["peak_bytes"] == peak_bytes]
    return f"{', '.join(names)}, {numbers.size(peak_bytes)}"


def _activations(rows: Sequence[Row]) -> str:
    told = _each(rows, lambda row: row["saved_activation_bytes"])
    if not told:
        return "none is known to save activations for a backward"
    return f"saved for a backward: {told}"


def _between_steps(rows: Sequence[Row]) -> str:
    asked = {"gradients": "gradient_bytes", "optimizer state": "optimizer_state_bytes"}
    told = [f"{title} ({sizes})" for title, column in asked.items() if (sizes := _of(rows, column))]
    return f"held between two steps: {' and '.join(told)}" if told else ""


def _of(rows: Sequence[Row], column: str) -> str:
    """`4.00 MiB` where all have as much; else how much each has that has any."""
    sizes = {row[column] or 0 for row in rows}
    if len(sizes) > 1:
        return _each(rows, lambda row: row[column])
    (size_bytes,) = sizes
    return numbers.size(size_bytes) if size_bytes else ""


def _pools(rows: Sequence[Row]) -> str:
    told = _each(rows, pool_free_bytes)
    return f"kept free in a graph pool, for its replays alone: {told}" if told else ""


def _each(rows: Sequence[Row], size_bytes: Callable[[Row], float | None]) -> str:
    sizes = [(words.variant(row), size_bytes(row)) for row in rows]
    return ", ".join(f"{name} {numbers.size(known)}" for name, known in sizes if known)


def _unknown(section: pd.DataFrame) -> str:
    """Rows that were measured but have a pool of which it is not known how much of it lives."""
    rows = sorted(words.as_rows(trusted(section)), key=style.order)
    names = [
        words.variant(row)
        for row in rows
        if row["resident_bytes"] is not None and pool_free_bytes(row) is None
    ]
    if not names:
        return ""
    return f"peak unknown, as is what lives in the graph pool: {', '.join(names)}"


def _setup(rows: Sequence[Row]) -> str:
    apart = [row for row in rows if row["setup_peak_bytes"] and _setup_on_scale(row) is None]
    if not apart:
        return ""
    most = max(apart, key=lambda row: row["setup_peak_bytes"])
    return (
        f" Setup is not charted: {numbers.size(most['setup_peak_bytes'])} at most, by "
        f"{words.variant(most)} ({most['setup_peak_note'] or 'above an unknown start'})."
    )
