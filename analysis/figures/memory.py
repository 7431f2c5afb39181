"""The parts of the memory of a call, by mode."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive import memory
from modescope.analysis.derive.memory import lanes, setup_bytes
from modescope.analysis.figures.draw.bars import Look, bars, length_axis
from modescope.analysis.figures.draw.canvas import MOST_ROWS, Entry, and_more
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import charted
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.columns import NAMING
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.summary import pool_free_bytes

# Tensors that stay between calls are pale, what backward needs is strong, the rest is outlined.
_LOOKS = {
    "weights": Look("weights", style.FADED),
    "inputs": Look("inputs", style.FADED, "////"),
    "state": Look("optimizer state", style.OPTIMIZER),
    "gradients": Look("gradients", style.OPTIMIZER, "////"),
    "kept": Look("other resident", style.FADED, "||||"),  # on CUDA mostly the workspace of cuBLAS
    "pool": Look("reserved by graph pool", None, "xxxx"),
    "saved": Look("saved for backward", style.ACTIVATIONS),
    "copies": Look("cast weights", style.ACTIVATIONS, "////"),
    "step": Look("rest of the call", None),
}
_BARS = ("peak", "between steps")


def draw(section: pd.DataFrame) -> Figure | None:
    """Stacked bars of each peak of a SECTION, and for training of the memory between two steps.

    A vertical line marks the peak of the first call where it is known to exceed that of a later
    one. None if no trusted row has a known peak.
    """
    rows = _with_peak(section)
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    drawn = [(_entry(row), lanes(row)) for row in shown]
    used = {name for _, bars_of_row in drawn for bar in bars_of_row for name, _ in bar}
    foot = and_more(_foot(shown, used), len(rows) - len(shown))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Memory at the peak of a call", drawn, _LOOKS, f"{foot}\n{phrases.work(rows[0])}"
        )
        for place, row in enumerate(shown):
            _mark(axes, place, row, stack.thick)
        length_axis(axes, numbers.size_tick, numbers.size_unit(axes.get_xlim()[1])[0])
    return stack.figure


def _with_peak(section: pd.DataFrame) -> list[Row]:
    return [row for row in charted(section) if row["peak_bytes"] is not None]


def _foot(rows: Sequence[Row], used: Collection[str]) -> str:
    notes = {
        "upper bar: at the peak, when gradients are part of the rest; lower bar: between two "
        "steps": any(map(memory.drops_gradients, rows)),
        "line: the peak of the first call, at least": any(map(setup_bytes, rows)),
        "other resident: mostly the workspace of cuBLAS": "kept" in used
        and phrases.on_cuda(rows[0]),
    }
    return "; ".join(note for note, applies in notes.items() if applies)


def _mark(axes: Axes, place: int, row: Row, thick: float) -> None:
    if (peak_bytes := setup_bytes(row)) is not None:
        colour, half = style.family(row).colour, thick / 2
        axes.plot([peak_bytes] * 2, (place - half, place + half), color=colour, linewidth=2)


def _entry(row: Row) -> Entry:
    peak, free = f"peak {numbers.size(row['peak_bytes'])}", pool_free_bytes(row)
    pool = f", {numbers.size(free)} reserved by a pool" if free else ""
    return Entry(phrases.variant(row), peak + pool, row)


def caption(section: pd.DataFrame) -> str | None:
    """The lowest and the highest peak, and its notable parts by mode; None without a peak."""
    rows = _with_peak(section)
    if not rows:
        return None
    clauses = [
        _ranked(rows), _activations(rows), _between_steps(rows), _pools(rows), _unknown(section),
    ]  # fmt: skip
    sentence = "; ".join(filter(None, clauses))
    return f"{sentence[0].upper()}{sentence[1:]}.{_setup(rows)}"


def _ranked(rows: Sequence[Row]) -> str:
    peaks = sorted({row["peak_bytes"] for row in rows})
    if len(peaks) == 1:
        return f"equal peaks: {_at(rows, peaks[0])}"
    return f"lowest peak: {_at(rows, peaks[0])}; highest: {_at(rows, peaks[-1])}"


def _at(rows: Sequence[Row], peak_bytes: float) -> str:
    modes = [phrases.variant(row) for row in rows if row["peak_bytes"] == peak_bytes]
    return f"{', '.join(modes)}, {numbers.size(peak_bytes)}"


def _activations(rows: Sequence[Row]) -> str:
    sizes = _each(rows, lambda row: row["saved_activation_bytes"])
    if not sizes:
        return "no mode is known to save activations for backward"
    return f"saved for backward: {sizes}"


def _between_steps(rows: Sequence[Row]) -> str:
    columns = {"gradients": "gradient_bytes", "optimizer state": "optimizer_state_bytes"}
    held = [f"{title} ({sizes})" for title, name in columns.items() if (sizes := _of(rows, name))]
    return f"held between two steps: {' and '.join(held)}" if held else ""


def _of(rows: Sequence[Row], column: str) -> str:
    """`4.00 MiB` if all modes have the same; else the size for each mode that has any."""
    sizes = {row[column] or 0 for row in rows}
    if len(sizes) > 1:
        return _each(rows, lambda row: row[column])
    (size_bytes,) = sizes
    return numbers.size(size_bytes) if size_bytes else ""


def _pools(rows: Sequence[Row]) -> str:
    sizes = _each(rows, pool_free_bytes)
    return f"reserved by a graph pool for its replays: {sizes}" if sizes else ""


def _each(rows: Sequence[Row], size_bytes: Callable[[Row], float | None]) -> str:
    sizes = [(phrases.variant(row), size_bytes(row)) for row in rows]
    return ", ".join(f"{mode} {numbers.size(known)}" for mode, known in sizes if known)


def _unknown(section: pd.DataFrame) -> str:
    """Measured rows with a graph pool whose live part is unknown."""
    known = (row for row in charted(section) if row["resident_bytes"] is not None)
    modes = ", ".join(phrases.variant(row) for row in known if pool_free_bytes(row) is None)
    return f"peak unknown, as the live part of the graph pool is: {modes}" if modes else ""


def _setup(rows: Sequence[Row]) -> str:
    apart = [r for r in rows if r["setup_peak_bytes"] and memory.setup_on_scale(r) is None]
    if not apart:
        return ""
    most = max(apart, key=lambda row: row["setup_peak_bytes"])
    return (
        f" First-call peaks are not drawn: at most {numbers.size(most['setup_peak_bytes'])}, in "
        f"{phrases.variant(most)} ({most['setup_peak_note'] or 'above an unknown start'})."
    )


def table(section: pd.DataFrame) -> Table:
    """The parts of each peak, and for training of the memory between two steps."""
    rows = _with_peak(section)
    bars_of_rows = [
        (row, when, dict(lane))
        for row in rows
        for when, lane in zip(_BARS, lanes(row), strict=False)
    ]
    used = [name for name in _LOOKS if any(name in parts for _, _, parts in bars_of_rows)]
    two = len(bars_of_rows) > len(rows)
    lines = tuple(
        (
            *(column.cell(row) for column in NAMING),
            *((when,) if two else ()),
            *(
                numbers.size(parts.get(part, memory.without(row, part, when == _BARS[0])))
                for part in used
            ),
            numbers.size(sum(parts.values())),
            numbers.size(row["setup_peak_bytes"] if when == _BARS[0] else None),
        )
        for row, when, parts in bars_of_rows
    )
    naming = (*(c.title for c in NAMING), *(("when",) if two else ()))
    named = (_LOOKS[part].name for part in used)
    return Table("Memory", (*naming, *named, "total", "first-call peak"), len(naming), lines)


FIGURE = FigureKind(
    "memory", "Memory", "stacked bars of the memory of a call by its parts, a row per mode",
    draw, caption, table,
)  # fmt: skip
