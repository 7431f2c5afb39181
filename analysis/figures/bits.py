"""Figure of fewer bits: what each quantized mode gains over a size."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.derive.bits import fewer_bits
from modescope.analysis.derive.series import SizeSeries
from modescope.analysis.estimates import high, low
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.columns import Table
from modescope.bench.stats.estimates import is_wide

_HIGH = 2.6  # inches
_LINES = ("-", "--", ":", "-.")


def _draw(series: SizeSeries) -> Figure | None:
    found = fewer_bits(series)
    if not found:
        return None
    figure = Figure((theme.width(), _HIGH))
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel=series.size, title="Gain of fewer bits")
    handles = []
    for mode, line in zip(found, cycle(_LINES), strict=False):
        row = mode.line.rows[0]
        look: dict[str, Any] = {
            "color": style.family(row).colour, "marker": style.marker(row), "linestyle": line,
            "markersize": 7, "markeredgewidth": 0,
        }  # fmt: skip
        for size, gain in mode.gains.items():
            axes.plot([size, size], [low(gain), high(gain)], color=look["color"], linewidth=1.4)
        told = {size: gain.value for size, gain in mode.gains.items() if not is_wide(gain)}
        axes.plot([*told], [*told.values()], linewidth=1.0, **look)  # no middle of a wide interval
        handles.append(Line2D([], [], label=f"{mode.line.name} over {mode.over}", **look))
    axes.axhline(1, color=style.INK, linewidth=0.8)
    axes.grid(visible=True, axis="both")
    sizes = sorted({size for mode in found for size in mode.gains})
    theme.log_ticks(axes.xaxis, theme.width() - 0.7, "{:g}".format, [sizes])
    theme.log_ticks(axes.yaxis, _HIGH - 0.9, "{:g}×".format, [*theme.EVEN, *theme.DECIMAL])
    theme.legend(figure, handles)
    theme.small_print(figure, phrases.work_at(found[0].line.rows[0], series.others))
    return figure


def _table(series: SizeSeries) -> Table:
    found = fewer_bits(series)
    sizes = sorted({size for mode in found for size in mode.gains})
    lines = tuple(
        (
            *(mode.line.name, mode.over, mode.where, numbers.scientific(mode.error)),
            *(
                numbers.ratio(mode.gains[size]) if size in mode.gains else numbers.UNKNOWN
                for size in sizes
            ),
        )
        for mode in found
    )
    titles = ("mode", "compared with", "faster", "largest error")
    every = (*titles, *(f"{series.size} {size}" for size in sizes))
    return Table("Gain of fewer bits", every, 3, lines)


BITS = FigureKind(
    "bits",
    "Gain of fewer bits over a size",
    "gain of each mode with fewer bits over a size, with intervals",
    "Above 1× weights of fewer bits make the mode faster than the same mode with all bits. The "
    "vertical line through a mark is the 95 % interval of a ratio of two rows.",
    _draw,
    _table,
)
