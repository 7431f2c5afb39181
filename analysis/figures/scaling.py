"""Latency, overhead and saved activations over a size, by mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.derive.series import Line, Series
from modescope.analysis.figures import theme
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table

CAPTION = (
    "Both axes are logarithmic. Where a mode's latency is close to its overhead, calls are bound "
    "by overhead: larger sizes cost nothing more."
)
_SAVED = "saved_activation_bytes"
# Of several lines of one mode in a panel.
_DASHES: tuple[Any, ...] = ("", (4, 1.5), (1, 1), (4, 1, 1, 1))
_HIGH, _LABELS = 2.1, 0.62  # inches: of a panel, and of what stands on its left
_LEAST = 3.0  # the greatest value of an axis ÷ its least, so that noise does not fill it


def draw(series: Series) -> Figure:
    """A line of panels per precision: latency, overhead and bytes saved, where they are known."""
    lines = ordered(series)
    precisions = list(phrases.grouped((line.rows[0]["dtype"], line) for line in lines).values())
    columns = {c: title for c, title in _titles(series).items() if _points(lines, c)}
    each = {name: look for members in precisions for name, look in _looks(members).items()}
    looks = {_name(line): each[_name(line)] for line in lines}
    across = theme.legend_columns(list(looks))
    high = _HIGH * len(precisions) + 0.2 * -(-len(looks) // across) + 0.3
    figure = Figure((theme.WIDTH, high), layout="constrained")
    grid = figure.subplots(len(precisions), len(columns), squeeze=False)
    for members, panels in zip(precisions, grid, strict=True):
        dtype = f", {members[0].rows[0]['dtype']}" if len(precisions) > 1 else ""
        for axes, (column, title) in zip(panels, columns.items(), strict=True):
            _draw(axes, members, column)
            axes.set(title=f"{title}{dtype}", xlabel=series.size, ylabel="")
        clocks = len(columns) - (_SAVED in columns)
        _share_scale(panels[:clocks], numbers.tick, theme.DECIMAL)
        _share_scale(panels[clocks:], numbers.size_tick, theme.BINARY)
        sizes = sorted({size for line in members for size in line.sizes})
        thinned = [sizes[::step] for step in range(1, len(sizes) + 1)]
        inches = theme.WIDTH / len(columns) - _LABELS
        for axes in filter(Axes.has_data, panels):
            theme.log_ticks(axes.xaxis, inches, "{:g}".format, thinned)
    handles = [
        Line2D([], [], label=name, color=look["color"], marker=look["marker"],
               linestyle=(0, look["dashes"]) if look["dashes"] else "-")
        for name, look in looks.items()
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", ncols=across, handlelength=2.4)
    theme.small_print(figure, phrases.work_at(lines[0].rows[0], series.others))
    return figure


def ordered(series: Series) -> list[Line]:
    """The lines of a series in the order of figures."""
    return sorted(series.lines, key=lambda line: style.order(line.rows[0]))


def _titles(series: Series) -> dict[str, str]:
    """The columns that may be drawn, and the titles of their panels."""
    overhead = series.overhead
    clock = f"{overhead.clock}_paired"
    return {"latency_paired": "Latency", clock: overhead.name.capitalize(), _SAVED: "Saved bytes"}


def _name(line: Line) -> str:
    """The name of a line without its precision, which stands above the panel."""
    return line.name.replace(f" {line.rows[0]['dtype']}", "", 1)


def _points(lines: Iterable[Line], column: str) -> list[tuple[str, int, float]]:
    """Line, size and each value: of a clock with the ends of its interval, where it has one."""
    values = [column] if column == _SAVED else [f"{column}{end}_s" for end in _ENDS]
    return [
        (_name(line), size, float(row[value]))
        for line in lines
        for size, row in zip(line.sizes, line.rows, strict=True)
        for value in values
        if row.get(value)
    ]


_ENDS = ("", "_ci_low", "_ci_high")


def _draw(axes: Axes, lines: Sequence[Line], column: str) -> None:
    """A line per mode: the median and the range of low, value and high."""
    points = _points(lines, column)
    if not points:  # as of dispatch under autocast
        axes.set_axis_off()
        return
    frame = pd.DataFrame(points, columns=["line", "size", "value"])
    looks = _looks(lines)
    names = list(looks)
    axes.set(xscale="log", yscale="log")
    sns.lineplot(
        frame, x="size", y="value", hue="line", style="line", hue_order=names, style_order=names,
        palette=[look["color"] for look in looks.values()],
        markers=[look["marker"] for look in looks.values()],
        dashes=[look["dashes"] for look in looks.values()],
        estimator="median", errorbar=("pi", 100), markeredgewidth=0, markersize=5.5, linewidth=1.4,
        legend=False, ax=axes,
    )  # fmt: skip
    axes.grid(visible=True, axis="both")


def _looks(lines: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """The look of each line of a panel, by its name."""
    drawn: Counter[tuple[str, str]] = Counter()
    looks = {}
    for line in lines:
        look = style.family(line.rows[0]).colour, style.marker(line.rows[0])
        dashes = _DASHES[drawn[look] % len(_DASHES)]
        looks[_name(line)] = {"color": look[0], "marker": look[1], "dashes": dashes}
        drawn[look] += 1
    return looks


def _share_scale(
    panels: Sequence[Axes], label: Callable[[float], str], sets: Sequence[Sequence[float]]
) -> None:
    """One scale of values for those panels that have any."""
    panels = [axes for axes in panels if axes.has_data()]
    limits = [end for axes in panels for end in axes.get_ylim()]
    if limits:
        low, high = min(limits), max(limits)
        beyond = max(1.0, _LEAST * low / high) ** 0.5
        for axes in panels:
            axes.set_ylim(low / beyond, high * beyond)
            theme.log_ticks(axes.yaxis, _HIGH - 0.7, label, sets, across=False)


def table(series: Series) -> Table:
    """What is drawn of each mode at each size."""
    sizes = sorted({size for line in series.lines for size in line.sizes})
    lines = []
    for line in ordered(series):
        at = dict(zip(line.sizes, line.rows, strict=True))
        for column, title in _titles(series).items():
            cells = [_cell(at.get(size), column) for size in sizes]
            if set(cells) != {numbers.UNKNOWN}:
                lines.append((line.name, title, *cells))
    titles = ("mode", "of a call", *(f"{series.size} {size}" for size in sizes))
    return Table(f"Values over {series.size}", titles, 2, tuple(lines))


def _cell(row: Row | None, column: str) -> str:
    if row is None:
        return numbers.UNKNOWN
    if column == _SAVED:
        return numbers.size(row[column])
    return numbers.duration(row[f"{column}_s"])
