"""Figures of markers, a row per mode: speedup, and device work and kernels beside eager's."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive.fusion import Pair, references_of, work_of
from modescope.analysis.derive.select import trusted
from modescope.analysis.estimates import high, low
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import cells, columns, numbers, phrases, style
from modescope.analysis.format.columns import Column, Table
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import as_rows, required
from modescope.bench.stats.estimates import MARGIN, Verdict

_CHOSEN = "#e3b341"  # behind a recommended mode; visible on white and on near-black


def _draw_speedup(section: pd.DataFrame) -> Figure | None:
    rows = theme.charted(section)
    if not rows:
        return None
    panels = theme.panels("Speedup", rows, lambda row: f"{cells.speedup(row)} {row['verdict']}",
                          against=True)  # fmt: skip
    figure, grid = theme.sheet(panels, phrases.work(rows[0]), len(rows))
    for (axes,), panel in zip(grid, panels, strict=True):
        for place in (n for n, row in enumerate(panel.rows) if row.get("is_recommended")):
            axes.axhspan(place - 0.5, place + 0.5, color=_CHOSEN, alpha=0.3, linewidth=0)
        _intervals(axes, panel.rows)
        round_ones = [*theme.BINARY, *theme.EVEN]
        theme.log_ticks(axes.xaxis, theme.room(panels), lambda value: f"{value:g}×", round_ones)
    return figure


def _intervals(axes: Axes, rows: Sequence[Row]) -> None:
    """Draws a marker and an interval per row.

    Each row is three points for seaborn (low, value, high), which draws their median and range.
    """
    known = [required(row["speedup"]) for row in rows]
    ends = [end for ratio in known for end in (ratio.value, low(ratio), high(ratio))]
    places = [place for place in range(len(rows)) for _ in range(3)]
    axes.set_xscale("log")
    axes.axvspan(1 / (1 + MARGIN), 1 + MARGIN, color=style.FADED, alpha=0.35, linewidth=0)
    axes.axvline(1, color=style.INK, linewidth=0.8)
    sns.pointplot(
        x=ends, y=places, hue=places, orient="h", native_scale=True, estimator="median",
        errorbar=("pi", 100), palette=[style.family(row).colour for row in rows],
        markers=[style.marker(row) for row in rows], linestyles="none", markersize=6,
        markeredgewidth=1.2, err_kws={"linewidth": 1.3}, legend=False, ax=axes,
    )  # fmt: skip
    drawn = (line for line in axes.lines if line.get_marker() in style.CHARACTERS)
    for row, line in zip(rows, drawn, strict=True):
        if row["verdict"] not in (Verdict.FASTER, Verdict.SLOWER):
            line.set_markerfacecolor("none")
    least, most = min(*ends, 0.96), max(*ends, 1.04)
    beyond = (most / least) ** 0.05  # room for half a marker
    axes.set(
        xlim=(least / beyond, most * beyond), ylim=(len(rows) - 0.5, -0.5), xlabel="", ylabel=""
    )


SPEEDUP = FigureKind(
    "speedup",
    "Speedup",
    "speedups with their intervals, a row per mode",
    "Right of 1× is faster than the baseline; the band is ±1 %, the line through a marker its 95 % "
    "interval. A filled marker is faster or slower, a hollow one neither. The recommended mode is "
    "bold, on a band. The axis is logarithmic; each panel has its own scale.",
    _draw_speedup,
    theme.charted_table("Speedups", (
        columns.AGAINST,
        columns.SPEEDUP,
        columns.VERDICT,
        Column("smallest detectable change", lambda row: numbers.percent(row["mde"]),
               optional=True),
        Column("rounds", lambda row: numbers.calls(row["rounds"])),
    )),
    coloured=theme.charted,
)  # fmt: skip


def pairs(section: pd.DataFrame) -> list[Pair]:
    """Returns a Pair of each charted row and plain eager, in the order of figures.

    Rows whose fusion gain (time of plain eager's work ÷ time of the row's) is unknown are left out.
    """
    every = {row["run_id"]: row for row in as_rows(trusted(section))}
    references = references_of(every.values())
    return [
        Pair(row, references[work_of(every[row["run_id"]])], gain)
        for row in theme.charted(section)
        if (gain := row["fusion_gain"]) is not None
    ]


def _draw_fusion(section: pd.DataFrame) -> Figure | None:
    known = {pair.row["run_id"]: pair for pair in pairs(section)}
    if not known:
        return None
    rows = [pair.row for pair in known.values()]
    panels = theme.panels("Device work", rows, columns.FUSION.cell)
    counted = any(None not in _kernels(pair) for pair in known.values())
    figure, grid = theme.sheet(
        panels, phrases.work(rows[0]), len(rows), "Kernels" if counted else ""
    )
    for line, panel in zip(grid, panels, strict=True):
        members = [known[row["run_id"]] for row in panel.rows]
        times = [(pair.reference_work_s, required(pair.row["work_s"])) for pair in members]
        scale, unit = numbers.time_unit(max(map(max, times)))
        _dumbbells(line[0], members, [(a / scale, b / scale) for a, b in times])
        theme.linear_ticks(line[0], max(map(max, times)) / scale, unit, most=5)
        if counted:
            counts = list(map(_kernels, members))
            _dumbbells(line[1], members, counts)
            most = max((count for both in counts for count in both if count), default=1)
            theme.linear_ticks(line[1], most, "per call", most=5)
    return figure


def _kernels(pair: Pair) -> tuple[float | None, float | None]:
    return pair.reference["kernels"], pair.row["kernels"]


def _dumbbells(
    axes: Axes, members: Sequence[Pair], ends: Sequence[tuple[float | None, float | None]]
) -> None:
    """Draws a line for each of `members`, from plain eager's value to the mode's.

    `ends` has both values of each member. There is no line if one of them is None.
    """
    known = [place for place, both in enumerate(ends) if None not in both]
    frame = pd.DataFrame(
        [(ends[place][side], place, side) for place in known for side in (0, 1)],
        columns=["value", "place", "side"],
    ).astype({"value": "float64"})
    colours = {place: style.family(members[place].row).colour for place in known}
    drawn = {"data": frame, "x": "value", "y": "place", "legend": False, "ax": axes}
    sns.lineplot(**drawn, units="place", estimator=None, orient="y", hue="place",
                 palette=colours, linewidth=2)  # fmt: skip
    drawn["data"] = frame[frame["side"] == 0]
    sns.scatterplot(**drawn, facecolor="none", edgecolor=style.EAGER.colour, linewidth=1.8, s=48,
                    zorder=3)  # fmt: skip
    drawn["data"] = frame[frame["side"] == 1]
    sns.scatterplot(**drawn, hue="place", style="place", palette=colours, s=48, linewidth=0,
                    markers={place: style.marker(members[place].row) for place in known},
                    zorder=4)  # fmt: skip
    axes.set(ylabel="", ylim=(len(members) - 0.5, -0.5))


def _fusion_table(section: pd.DataFrame) -> Table:
    titles = ("work", "eager's work", "kernels", "eager's kernels", "fusion gain [95 %]",
              "speedup from work", "launch gain")  # fmt: skip
    lines = [
        (
            *(column.cell(pair.row) for column in columns.NAMING),
            numbers.duration(pair.row["work_s"]),
            numbers.duration(pair.reference_work_s),
            columns.KERNELS.cell(pair.row),
            columns.KERNELS.cell(pair.reference),
            columns.FUSION.cell(pair.row),
            numbers.factor(pair.row["fusion_speedup"]),
            numbers.factor(pair.row["launch_gain"]),
        )
        for pair in pairs(section)
    ]
    naming = tuple(column.title for column in columns.NAMING)
    return Table("Work", (*naming, *titles), len(naming), tuple(lines))


FUSION = FigureKind(
    "fusion",
    "Device work and kernels",
    "device work and kernels of each mode and of eager, a row per mode",
    "The ring is plain eager with the same grad axis, the marker the mode: further left is less "
    "work. The numbers are eager's work ÷ the mode's, with their 95 % interval.",
    _draw_fusion,
    _fusion_table,
)
