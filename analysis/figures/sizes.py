"""Figures over sizes: speedups, times, saved activations, and calls of different sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.derive.mix import Mix, mix_of
from modescope.analysis.derive.series import Grid, Line, SizeSeries
from modescope.analysis.estimates import number_of, point
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind, Panel
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import Column, Table
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import grouped, required, value_of
from modescope.bench.stats.estimates import Estimate, Verdict

MOST_PANELS = 4  # per figure
_CELL = 0.45  # inches: of a number and what is around it
STRONGEST = 3.0  # times faster or slower at which the colour saturates


def _draw_heatmap(grids: Sequence[Grid]) -> Figure | None:
    if not grids:
        return None
    shown = _ordered_grids(grids)[:MOST_PANELS]
    panels = [
        Panel(_title(grid), [grid.first] * len(grid.names), grid.names, [""] * len(grid.names))
        for grid in shown
    ]
    rows = sum(len(grid.names) for grid in grids)
    figure, lines = theme.sheet(panels, phrases.work_at(grids[0].first, "{}"), rows)
    for (axes,), grid in zip(lines, shown, strict=True):
        _cells(axes, grid, int(theme.room(panels) / _CELL))
    return figure


def _ordered_grids(grids: Sequence[Grid]) -> list[Grid]:
    return sorted(grids, key=lambda grid: grid.first["dtype"] != grid.first["baseline_dtype"])


def _title(grid: Grid) -> str:
    others = f", {phrases.sizes(grid.others)}" if grid.others != "{}" else ""
    return f"Speedup over {grid.size}, {phrases.contest(grid.first)}{others}"


def _cells(axes: Axes, grid: Grid, most: int) -> None:
    """Draws a cell per mode and size; of more sizes than `most`, only some."""
    count = len(grid.sizes)
    places = np.linspace(0, count - 1, min(count, most)).round().astype(int)
    rows = [[mode[place] for place in places] for mode in grid.modes]
    values = np.array(
        [[required(row["speedup"]).value if row else np.nan for row in line] for line in rows]
    )
    sns.heatmap(
        values, norm=LogNorm(1 / STRONGEST, STRONGEST), cmap="PuOr", annot=True, fmt=".2f",
        annot_kws={"size": theme.SMALL}, cbar=False, linewidths=0.8, linecolor="none", ax=axes,
        xticklabels=[grid.sizes[place] for place in places],
        yticklabels=[name.get_text() for name in axes.get_yticklabels()],
    )  # fmt: skip
    for text, row in zip(axes.texts, (row for line in rows for row in line if row), strict=True):
        text.set_fontweight(
            "bold" if row["verdict"] in (Verdict.FASTER, Verdict.SLOWER) else "normal"
        )
    axes.tick_params(axis="y", rotation=0)
    axes.set_xlabel(grid.size)


def _heatmap_table(grids: Sequence[Grid]) -> Table:
    sizes = sorted({size for grid in grids for size in grid.sizes})
    lines = []
    for grid in _ordered_grids(grids):
        contest = ", ".join(filter(None, (phrases.contest(grid.first), phrases.sizes(grid.others))))
        for name, mode in zip(grid.names, grid.modes, strict=True):
            at = {size: row for size, row in zip(grid.sizes, mode, strict=True) if row}
            shown = (cells.speedup(at[size]) if size in at else numbers.UNKNOWN for size in sizes)
            lines.append((name, contest, *shown))
    titles = ("mode", "comparison", *(f"{grids[0].size} {size}" for size in sizes))
    return Table("Speedups by size", titles, 2, tuple(lines))


HEATMAP = FigureKind(
    "heatmap",
    "Speedup by mode and size",
    "a grid of speedups, a row per mode and a column per size",
    "Purple is faster than the baseline, orange slower, white 1×; bold numbers are faster or "
    "slower beyond ±1 %.",
    _draw_heatmap,
    _heatmap_table,
)

_SAVED = "saved_activation_bytes"
# Of several lines of one colour in a panel.
_DASHES: tuple[Any, ...] = ("", (4, 1.5), (1, 1), (4, 1, 1, 1))
_HIGH, _LABELS = 2.1, 0.62  # inches: of a panel, and of what stands on its left
_LEAST = 3.0  # the greatest value of an axis ÷ its least, so that noise does not fill it


def _draw_scaling(series: SizeSeries) -> Figure:
    """Draws latency, overhead and saved bytes over a size, a line of panels per precision."""
    lines = series.lines
    precisions = list(grouped((line.rows[0]["dtype"], line) for line in lines).values())
    columns = {c: title for c, title in _titles(series).items() if _points(lines, c)}
    shown = [[column for column in columns if _points(members, column)] for members in precisions]
    is_narrow = theme.is_narrow()
    across = 1 if is_narrow else len(columns)
    down = sum(map(len, shown)) if is_narrow else len(precisions)
    figure = Figure((theme.width(), _HIGH * down + 0.3))
    places = iter(figure.subplots(down, across, squeeze=False).flat)
    for members, wanted in zip(precisions, shown, strict=True):
        dtype = f", {members[0].rows[0]['dtype']}" if len(precisions) > 1 else ""
        panels = {}
        for column, title in columns.items():
            if column in wanted:
                panels[column] = axes = next(places)
                _draw_lines(axes, members, column)
                axes.set(title=f"{title}{dtype}", xlabel=series.size, ylabel="")
            elif not is_narrow:  # as of dispatch under autocast
                next(places).remove()
        saved = [panels[_SAVED]] if _SAVED in panels else []
        _share_scale(saved, numbers.size_unit, theme.BINARY)
        clocks = [axes for axes in panels.values() if axes not in saved]
        _share_scale(clocks, numbers.time_unit, theme.DECIMAL)
        sizes = sorted({size for line in members for size in line.sizes})
        thinned = [sizes[::step] for step in range(1, len(sizes) + 1)]
        for axes in panels.values():
            inches = theme.width() / across - _LABELS
            theme.log_ticks(axes.xaxis, inches, "{:g}".format, thinned)
    looks = {name: look for members in precisions for name, look in _looks(members).items()}
    names = dict.fromkeys(map(_name, lines))
    theme.legend(figure, [
        Line2D([], [], label=name, color=looks[name]["color"], marker=looks[name]["marker"],
               linestyle=(0, looks[name]["dashes"]) if looks[name]["dashes"] else "-")
        for name in names
    ])  # fmt: skip
    theme.small_print(figure, phrases.work_at(lines[0].rows[0], series.others))
    return figure


def _titles(series: SizeSeries) -> dict[str, str]:
    overhead = series.overhead
    clock = f"{overhead.clock}_paired_s"
    return {"latency_paired_s": "Latency", clock: overhead.name.capitalize(), _SAVED: "Saved bytes"}


def _name(line: Line) -> str:
    """The name of a line without its precision, which stands above the panel."""
    return line.name.replace(f" {line.rows[0]['dtype']}", "", 1)


def _points(lines: Iterable[Line], column: str) -> list[tuple[str, int, float]]:
    """Returns the points of a panel that shows `column`: the name of the line, the size, the value.

    An estimate has three points at each size: its value and the two ends of its interval.
    """
    return [
        (_name(line), size, float(value))
        for line in lines
        for size, row in zip(line.sizes, line.rows, strict=True)
        for value in _parts(value_of(row, column))
        if value
    ]


def _parts(value: Estimate | float | None) -> tuple[float | None, ...]:
    return (value.value, value.low, value.high) if isinstance(value, Estimate) else (value,)


def _draw_lines(axes: Axes, lines: Sequence[Line], column: str) -> None:
    """Draws a line per mode.

    Each time is three points for seaborn (low, value, high), which draws their median and range.
    """
    frame = pd.DataFrame(_points(lines, column), columns=["line", "size", "value"])
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
    drawn: Counter[str] = Counter()
    looks = {}
    for line in lines:
        colour, marker = style.family(line.rows[0]).colour, style.marker(line.rows[0])
        dashes = _DASHES[drawn[colour] % len(_DASHES)]
        looks[_name(line)] = {"color": colour, "marker": marker, "dashes": dashes}
        drawn[colour] += 1
    return looks


def _share_scale(
    panels: Sequence[Axes],
    unit_of: Callable[[float], tuple[float, str]],
    sets: Sequence[Sequence[float]],
) -> None:
    """Gives `panels` the same logarithmic y axis.

    `unit_of` returns the scale and the name of the unit for a value. `sets` are candidate sets of
    round tick values.
    """
    limits = [end for axes in panels for end in axes.get_ylim()]
    for axes in panels:
        beyond = max(1.0, _LEAST * min(limits) / max(limits)) ** 0.5
        beyond *= (max(limits) / min(limits)) ** 0.04  # room for half a marker
        axes.set_ylim(min(limits) / beyond, max(limits) * beyond)
        theme.log_ticks(axes.yaxis, _HIGH - 0.7, partial(numbers.tick, unit_of=unit_of), sets)


def _scaling_table(series: SizeSeries) -> Table:
    sizes = sorted({size for line in series.lines for size in line.sizes})
    lines = []
    for line in series.lines:
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
    formatted = numbers.size if column == _SAVED else numbers.duration
    return formatted(number_of(row, column))


SCALING = FigureKind(
    "scaling",
    "Latency, overhead and saved activations over a size",
    "latency, overhead and saved bytes over a size, a line per mode",
    "Both axes are logarithmic. Where a mode's latency is close to its overhead, calls are bound "
    "by overhead: larger sizes cost nothing more.",
    _draw_scaling,
    _scaling_table,
)

_HIGH_OF_CALLS = 1.05  # inches: of a panel
_UNITS = [1e-9, 1e-6, 1e-3, 1.0, 1e3]  # seconds: ticks of a panel that spans many powers of ten


def _draw_first_pass(section: pd.DataFrame) -> Figure | None:
    known = [(row, mix) for row in theme.charted(section) if (mix := mix_of(row)) and mix.first_s]
    if not known:
        return None
    several = len({row["dtype"] for row, _ in known}) > 1
    figure = Figure((theme.width(), _HIGH_OF_CALLS * len(known) + 0.5), layout="constrained")
    grid = figure.subplots(len(known), squeeze=False, sharex=True, sharey=True)
    for (axes,), (row, mix) in zip(grid, known, strict=True):
        title = phrases.variant(row) if several else phrases.mode(row)
        axes.set(yscale="log", title=theme.filled(title))
        _calls(axes, row, mix)
    tick = partial(numbers.tick, unit_of=numbers.time_unit)
    for (axes,) in grid:
        theme.log_ticks(axes.yaxis, _HIGH_OF_CALLS - 0.4, tick, [*theme.DECIMAL, _UNITS])
    grid[-1][0].set_xlabel("number of the call")
    figure.supylabel("time of the call", size=theme.SMALL)
    dtype = "" if several else f", {known[0][0]['dtype']}"
    theme.small_print(figure, f"{phrases.work(known[0][0])}{dtype}")
    return figure


def _calls(axes: Axes, row: Row, mix: Mix) -> None:
    numbered = range(1, len(mix.first_s) + 1)
    if (usual := mix.steady_s(side=1)) is not None:
        sns.lineplot(
            x=numbered, y=usual, estimator=None, color=style.FADED, linewidth=1, ax=axes
        )  # fmt: skip
    compiling = {compilation.number for compilation in mix.compiles}
    colour = style.family(row).colour
    dot: dict[str, Any] = {"marker": ".", "s": 18, "color": colour, "linewidth": 0}
    ring: dict[str, Any] = {"marker": "o", "s": 42, "facecolor": "none", "edgecolor": colour,
                            "linewidth": 1.6}  # fmt: skip
    for look, wanted in ((dot, False), (ring, True)):
        calls = [number for number in numbered if (number in compiling) is wanted]
        sns.scatterplot(x=calls, y=[mix.first_s[n - 1] for n in calls], ax=axes, **look)
    if mix.gave_up_at is not None:
        axes.axvline(mix.gave_up_at - 0.5, color=style.INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.grid(visible=True, axis="both")
    axes.set(xlabel="", ylabel="", xlim=(0, len(mix.first_s) + 1))


def _compiles(row: Row) -> str:
    mix = mix_of(row)
    return numbers.UNKNOWN if mix is None else f"{len(mix.compiles)}"


def _eager(row: Row) -> str:
    mix = mix_of(row)
    if mix is None or mix.gave_up_at is None:
        return numbers.UNKNOWN
    return f"{len(mix.eager)} of {len(mix.calls)} calls, since call {mix.gave_up_at}"


def _per_call(row: Row) -> str:
    latency_s = point(row["latency_paired_s"])
    return numbers.duration(latency_s and latency_s / predicates.calls_of_a_step(row))


FIRST_PASS = FigureKind(
    "first-pass",
    "Calls of different sizes",
    "time of each call of the first pass, a panel per mode",
    "Each marker is a call of the first pass, a ring one in which torch compiled; the grey line "
    "is the baseline at the same size. At a dashed line torch gives up compiling new sizes.",
    _draw_first_pass,
    theme.charted_table("Passes", (
        Column("first pass", lambda row: numbers.duration(row["first_call_s"]), ">"),
        Column("later passes", lambda row: numbers.duration(point(row["latency_paired_s"])), ">"),
        Column("a call of them", _per_call, ">"),
        Column("compiling calls", _compiles, ">"),
        Column("runs in eager", _eager),
    )),
)  # fmt: skip
