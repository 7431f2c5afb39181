"""Latency and overhead over a size, by mode."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from modescope.analysis.derive.series import Line, Series
from modescope.analysis.derive.split import Overhead
from modescope.analysis.figures.draw.curves import curve, over, sheet
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table


def draw(series: Series) -> Figure:
    """Latency and overhead over the size, both logarithmic, a line per mode on a common scale.

    Overhead is host time on CUDA and dispatch on a CPU; if no row has it, only latency is drawn. A
    cross on the latency marks the size at which overhead equals device time, or half the call.
    """
    lines = ordered(series)
    names = [line.name for line in lines]
    names += [series.overhead.meets] if any(line.crossing for line in lines) else []
    clocks = _clocks(series)
    titles = [f"{clock.capitalize()} over {series.size}" for clock in clocks.values()]
    with matplotlib.rc_context(style.RC):
        panels = sheet(titles, names, phrases.work_at(lines[0].rows[0], series.others))
        for axes, clock in zip(panels.axes, clocks, strict=True):
            for line in lines:
                _draw(axes, line, clock, line.name if clock == "latency_paired_s" else None)
            over(axes, sorted({size for line in lines for size in line.sizes}), series.size)
            axes.set_yscale("log")
        _mark(panels.axes[0], lines, series.overhead.meets)
        _share_height(panels.axes)
        panels.legend()
    return panels.figure


def ordered(series: Series) -> list[Line]:
    """The lines of a series in the order of figures."""
    return sorted(series.lines, key=lambda line: style.order(line.rows[0]))


def _clocks(series: Series) -> dict[str, str]:
    """The column that each panel shows -> its title."""
    clock = f"{series.overhead.clock}_paired_s"
    known = any(row[clock] is not None for line in series.lines for row in line.rows)
    return {"latency_paired_s": "latency"} | ({clock: series.overhead.label} if known else {})


def _draw(axes: Axes, line: Line, clock: str, label: str | None = None) -> None:
    known = [(x, row[clock]) for x, row in zip(line.sizes, line.rows, strict=True) if row[clock]]
    if known:
        curve(axes, line, known, label)


def _mark(axes: Axes, lines: Sequence[Line], meaning: str) -> None:
    label: str | None = meaning
    for line in lines:
        if line.crossing is not None:
            axes.plot(line.crossing.size, line.crossing.latency_s, "x", color=style.INK,
                      markersize=8, markeredgewidth=1.6, label=label, zorder=3)  # fmt: skip
            label = None


def _share_height(panels: Sequence[Axes]) -> None:
    limits = [axes.get_ylim() for axes in panels if axes.lines]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
        seconds_axis(axes)


def seconds_axis(axes: Axes) -> None:
    """Few ticks on a logarithmic axis of seconds."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: numbers.tick(seconds)))
    axes.yaxis.set_minor_locator(NullLocator())


def caption(series: Series) -> str:
    """The sizes at which each mode is bound by overhead."""
    modes = phrases.grouped(
        (bound(line, series.overhead, series.size), line.name) for line in ordered(series)
    )
    listed = "; ".join(f"{', '.join(names)} {where}" for where, names in modes.items())
    return f"Bound by overhead ({series.overhead.exceeds}): {listed}."


def bound(line: Line, overhead: Overhead, size: str) -> str:
    """`up to about ops 49 (by the intervals between 32 and 64)`: where overhead sets the time."""
    if (crossing := line.crossing) is not None:
        rounded = float(f"{crossing.size:.2g}")  # interpolation gives no more than two digits
        about = f"about {size} {rounded:g}"
        where = f"up to {about}" if crossing.falling else f"from {about} on"
        after, before = crossing.after, crossing.before
        sure = after is not None and before is not None
        ends = f"between {after} and {before}" if sure else "undecided"
        return f"{where} (by the intervals {ends})"
    sides = {row["bound_by"] for row in line.rows}
    side = sides.pop() if len(sides) == 1 else "undecided"
    # every row has a latency
    needed = [clock for clock in (overhead.clock, overhead.against) if clock != "latency"]
    return _THROUGHOUT.get(side) or f"unknown, as {' or '.join(needed)} time is missing"


_THROUGHOUT = {
    "overhead": "at every size",
    "work": "at no size",
    "undecided": "undecided by the intervals",
}


def table(series: Series) -> Table:
    """Latency and overhead of each mode at each size."""
    sizes = sorted({size for line in series.lines for size in line.sizes})
    lines = []
    for line in ordered(series):
        at = dict(zip(line.sizes, line.rows, strict=True))
        for clock in ("latency", series.overhead.clock):
            cells = [_seconds(at.get(size), clock) for size in sizes]
            if set(cells) != {numbers.UNKNOWN}:
                lines.append((line.name, clock, *cells))
    titles = ("mode", "clock", *(f"{series.size} {size}" for size in sizes))
    return Table(f"Times over {series.size}", titles, 2, tuple(lines))


def _seconds(row: Row | None, clock: str) -> str:
    return numbers.UNKNOWN if row is None else numbers.duration(row[f"{clock}_s"])


FIGURE = FigureKind(
    "scaling", "Latency and overhead over a size",
    "latency and overhead over a size, a line per mode", draw, caption, table,
)  # fmt: skip
