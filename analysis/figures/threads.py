"""What further threads gain, by mode."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from modescope.analysis.figures.draw.curves import curve, over, sheet
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.scaling import seconds_axis
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.analysis.metrics.size_series import Line
from modescope.analysis.metrics.thread_gain import ThreadSeries, gain
from modescope.analysis.rows import equal_pace
from modescope.analysis.rows.intervals import ends
from modescope.bench.stats.estimates import Estimate

_ALIKE = "as many times faster as there are threads"
_BETWEEN = (
    "each number of threads is a process of its own; two processes of the same code differ by "
    "about 2 %, which no interval covers"
)


def draw(series: ThreadSeries) -> Figure:
    """The latency over the number of threads, and the gain over the fewest; both logarithmic.

    A dotted line shows what the gain would be if the threads shared all work.
    """
    names = [*(line.name for line in series.lines), _ALIKE]
    fewest, counts = series.counts[0], series.counts
    at = " at full pace" if _at_full_pace(series) else ""
    titles = (f"Latency{at} over threads", f"Gain over {_threads(fewest)}")
    first = series.lines[0].rows[0]
    with matplotlib.rc_context(style.RC):
        panels = sheet(titles, names, f"{_BETWEEN}\n{phrases.work(first)}")
        times, factors = panels.axes
        for line in series.lines:
            curve(times, line, [(row["threads"], _latency(row, series).value) for row in line.rows],
                  line.name)  # fmt: skip
            curve(factors, line, [(line.sizes[0], 1.0), *(
                (row["threads"], known.value) for row, known in _gains(line) if known
            )])  # fmt: skip
        factors.plot(counts, [count / fewest for count in counts], ":", color=style.INK,
                     linewidth=0.9, label=_ALIKE)  # fmt: skip
        for axes in panels.axes:
            over(axes, counts, "threads")
            axes.set_yscale("log")
        seconds_axis(times)
        _factor_axis(factors)
        panels.legend()
    return panels.figure


def _factor_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda factor, _: f"{factor:g}×"))
    axes.yaxis.set_minor_locator(NullLocator())


def _at_full_pace(series: ThreadSeries) -> bool:
    return equal_pace.has_pace(*(row for line in series.lines for row in line.rows))


def _latency(row: Row, series: ThreadSeries) -> Estimate:
    rows = [row for line in series.lines for row in line.rows]
    known = equal_pace.latencies(row, *rows)
    assert known is not None  # trusted rows have intervals
    return known[0]


def _gains(line: Line) -> Iterator[tuple[Row, Estimate | None]]:
    """The rows with more threads than the first, and their gain over it."""
    fewest, *others = line.rows
    for row in others:
        if row["threads"] > fewest["threads"]:
            yield row, gain(row, fewest)


def caption(series: ThreadSeries) -> str:
    """The gain of each mode with each number of threads, where it has an interval."""
    clauses = [
        f"{line.name} {_told(known)} with {row['threads']} instead of {_threads(line.sizes[0])}"
        for line in series.lines
        for row, known in _gains(line)
    ]
    return f"Gain of further threads: {'; '.join(clauses)}. {_BETWEEN.capitalize()}."


def _told(known: Estimate | None) -> str:
    """`1.62× [1.58, 1.66]`, with a remark where the interval includes no gain."""
    if known is None:
        return "unknown"
    text = numbers.factor_interval(known.value, known.low, known.high)
    low, high = ends(known)
    return f"{text} (no gain shown)" if low <= 1 <= high else text


def table(series: ThreadSeries) -> Table:
    """Latency and gain of each mode with each number of threads."""
    lines = []
    for line in series.lines:
        known = dict(zip(line.sizes, line.rows, strict=True))
        gained = {row["threads"]: factor for row, factor in _gains(line)}
        times = [numbers.estimate(_latency(known[n], series)) if n in known else numbers.UNKNOWN
                 for n in series.counts]  # fmt: skip
        factors = [_factor(gained.get(n)) for n in series.counts]
        lines += [(line.name, "latency [95 %]", *times), (line.name, "gain [95 %]", *factors)]
    titles = ("mode", "of a call", *map(_threads, series.counts))
    return Table("Latency and gain over threads", titles, 2, tuple(lines))


def _factor(known: Estimate | None) -> str:
    if known is None:
        return numbers.UNKNOWN
    return numbers.factor_interval(known.value, known.low, known.high)


def _threads(count: int) -> str:
    return numbers.counted(count, "thread", "threads")


FIGURE = FigureKind(
    "threads", "Gain of further threads",
    "latency and gain over the number of threads, a line per mode", draw, caption, table,
)  # fmt: skip
