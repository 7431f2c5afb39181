"""What further threads gain, by mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from modescope.analysis.derive import pace
from modescope.analysis.derive.series import Line, ThreadSeries
from modescope.analysis.figures.draw.curves import curve, over, sheet
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.scaling import seconds_axis
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.stats.estimates import Estimate
from modescope.bench.stats.intervals import ends, of_clock

Points = Sequence[tuple[float, float]]

_ALIKE = "as many times faster as there are threads"
_BETWEEN = (
    "each number of threads is a process of its own; two processes of the same code differ by "
    "about 2 %, which no interval covers"
)
_CONTENDED = (
    "no gain is stated of rows beside which other programs ran, because these slow two threads "
    "down by another factor than one"
)


def draw(series: ThreadSeries) -> Figure:
    """The latency over the number of threads, and the gain over the fewest; both logarithmic.

    A dotted line shows what the gain would be if the threads shared all work. Where no gain is
    known, there is the latency alone.
    """
    gained = {line.name: _points(series, line) for line in series.lines}
    names = [line.name for line in series.lines]
    at = " at full pace" if series.clock == pace.CLOCKS[0] else ""
    titles = [f"Latency{at} over threads"]
    if any(gained.values()):
        names.append(_ALIKE)
        titles.append(f"Gain over {_threads(series.counts[0])}")
    first = series.lines[0].rows[0]
    with matplotlib.rc_context(style.RC):
        panels = sheet(titles, names, f"{'; '.join(_remarks(series))}\n{phrases.work(first)}")
        times, *factors = panels.axes
        _draw_latencies(times, series)
        for axes in factors:
            _draw_gains(axes, series, gained)
        panels.legend()
    return panels.figure


def _points(series: ThreadSeries, line: Line) -> Points:
    """Threads and gain, from 1 at the fewest threads of the series; none without a gain."""
    known = [(row["threads"], gain.value) for row, gain in series.gains(line) if gain]
    return [(series.counts[0], 1.0), *known] if known else []


def _draw_latencies(axes: Axes, series: ThreadSeries) -> None:
    for line in series.lines:
        times = [(row["threads"], _latency(row, series).value) for row in line.rows]
        curve(axes, line, times, line.name)
    _logarithmic(axes, series)
    seconds_axis(axes)


def _draw_gains(axes: Axes, series: ThreadSeries, gained: Mapping[str, Points]) -> None:
    for line in series.lines:
        if gained[line.name]:
            curve(axes, line, gained[line.name])
    counts = series.counts
    axes.plot(counts, [count / counts[0] for count in counts], ":", color=style.INK,
              linewidth=0.9, label=_ALIKE)  # fmt: skip
    _logarithmic(axes, series)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda factor, _: f"{factor:g}×"))
    axes.yaxis.set_minor_locator(NullLocator())


def _logarithmic(axes: Axes, series: ThreadSeries) -> None:
    over(axes, series.counts, "threads")
    axes.set_yscale("log")


def _latency(row: Row, series: ThreadSeries) -> Estimate:
    return of_clock(row, series.clock)


def _remarks(series: ThreadSeries) -> list[str]:
    """What a reader must know of the gains."""
    rows = (row for line in series.lines for row in line.rows)
    return [_BETWEEN] if pace.is_comparable(*rows) else [_BETWEEN, _CONTENDED]


def caption(series: ThreadSeries) -> str:
    """The gain of each mode with each number of threads, where it has an interval."""
    fewest = _threads(series.counts[0])
    clauses = [
        f"{line.name} {_told(known)} with {row['threads']} instead of {fewest}"
        for line in series.lines
        for row, known in series.gains(line)
    ]
    remarks = " ".join(f"{one[0].upper()}{one[1:]}." for one in _remarks(series))
    return f"Gain of further threads: {'; '.join(clauses)}. {remarks}"


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
        gained = {row["threads"]: factor for row, factor in series.gains(line)}
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
