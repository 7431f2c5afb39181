"""Figures of stacked bars, one per row: the parts of a call, of its memory, of a training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from modescope.analysis.derive import memory
from modescope.analysis.estimates import number_of, point
from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import FigureKind, Panel
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import NAMING, Column, Table, table_of
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required, value_of
from modescope.bench import summary

Parts = Mapping[str, float]  # of a bar: name in the table of looks -> seconds or bytes

# Light, middle and dark stay apart where colours are lost, and where they are not.
_PALE, _MIDDLE, _DARK, _OVERHEAD = "#b6bec7", "#c29b2c", "#5357b8", "#a6409a"


@dataclass(frozen=True)
class Look:
    """The legend text, fill and hatch of a part of a bar; `fill` None draws only an outline."""

    name: str
    fill: str | None
    hatch: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """The properties that matplotlib needs to draw this part of a bar."""
        edge = style.INK if self.fill else style.FADED
        return {"facecolor": self.fill or "none", "edgecolor": edge, "hatch": self.hatch,
                "linewidth": 0.5}  # fmt: skip


def stacked(
    panels: Sequence[Panel],
    parts: Sequence[Sequence[Parts]],
    looks: Mapping[str, Look],
    rows: Sequence[Row],
    size: bool = False,
    further: Sequence[Any] = (),
) -> tuple[Figure, list[tuple[Axes, float]]]:
    """Draws a bar per row; returns the figure, and the axes and the scale of each panel.

    The scale is the amount, in seconds or bytes, that the axis shows as 1.

    `parts` has for each panel the Parts of each bar. `looks` has the Look of each part, in the
    order of the legend. `rows`: all rows, although the panels may have only some. `size`: amounts
    are bytes, all on one scale; else seconds, with a scale per panel. `further`: further handles of
    the legend.
    """
    used = {name for panel in parts for bar in panel for name, amount in bar.items() if amount}
    named = [look for name, look in looks.items() if name in used]
    figure, grid = theme.sheet(panels, phrases.work(rows[0]), len(rows), share=size)
    theme.legend(figure, [*(Patch(label=look.name, **look.style) for look in named), *further])
    longest = [max(sum(bar.values()) for bar in panel) for panel in parts]
    drawn = []
    if size:
        longest = [max(longest)] * len(panels)
    for (axes,), panel, length in zip(grid, parts, longest, strict=True):
        scale, unit = (numbers.size_unit if size else numbers.time_unit)(length)
        _bars(axes, panel, looks, scale)
        theme.linear_ticks(axes, length / scale, unit if not size or axes is grid[-1][0] else "")
        drawn.append((axes, scale))
    return figure, drawn


def _bars(axes: Axes, bars: Sequence[Parts], looks: Mapping[str, Look], scale: float) -> None:
    frame = pd.DataFrame(
        [(place, name, bars[place].get(name, 0.0) / scale)
         for place in range(len(bars)) for name in looks],
        columns=["place", "part", "amount"],
    )  # fmt: skip
    names = list(looks)
    sns.histplot(
        frame, y="place", weights="amount", hue="part", hue_order=names[::-1], multiple="stack",
        discrete=True, shrink=0.72, palette=dict.fromkeys(names, style.FADED), alpha=1,
        legend=False, ax=axes,
    )  # fmt: skip
    for name, container in zip(names, axes.containers, strict=True):
        for bar in container:
            bar.set(**looks[name].style)
            if not bar.get_width():
                bar.remove()
    axes.set(ylabel="", ylim=(len(bars) - 0.5, -0.5))


# Overhead has a strong colour, work a pale one, waiting none.
_OF_CALL = {
    "dispatch": Look("dispatch", _OVERHEAD),
    "launch": Look("launching and libraries", _OVERHEAD, "////"),
    "host": Look("host, not split", _OVERHEAD, "||||"),
    "work": Look("work", _PALE),
    "wait": Look("waiting", None),
    "unsplit": Look("not split", None, "////"),
}
# part -> its column; of several splits the first that is known is drawn
_ON_CPU = ({"dispatch": "dispatch_paired_s", "work": "work_s"},)
_ON_CUDA = (
    {"dispatch": "dispatch_paired_s", "launch": "launch_s", "wait": "host_wait_s"},
    {"host": "host_paired_s", "wait": "host_wait_s"},
)


def _draw_overhead(section: pd.DataFrame) -> Figure | None:
    """Draws the parts of a call, a bar per mode; None if no row's call can be split.

    On a GPU host and device work at the same time: the bar is the host's call, and a line marks for
    how long the device is busy in it.
    """
    rows = theme.charted(section)
    if all("unsplit" in _of_call(row) for row in rows):
        return None
    panels = theme.panels("Where the time of a call goes", rows, _split)
    line: dict[str, Any] = {
        "color": style.INK,
        "marker": "|",
        "linestyle": "none",
        "markeredgewidth": 2,
    }
    marked = [row for row in rows if predicates.on_cuda(row) and row["work_s"] is not None]
    busy = [Line2D([], [], markersize=9, label="device busy", **line)] if marked else []
    parts = [[_of_call(row) for row in panel.rows] for panel in panels]
    figure, drawn = stacked(panels, parts, _OF_CALL, rows, further=busy)
    for (axes, scale), panel in zip(drawn, panels, strict=True):
        places = {place: required(row["work_s"]) / scale for place, row in enumerate(panel.rows)
                  if row in marked}  # fmt: skip
        axes.plot(list(places.values()), list(places), markersize=13, **line)
    return figure


def _of_call(row: Row) -> Parts:
    """Returns the parts of a row's call, in seconds, that its bar shows.

    A call can be split more or less finely. The finest split whose parts are all known is used,
    because a bar that lacks a part would look too short. Without one, the bar has a single part.
    """
    splits = _ON_CUDA if predicates.on_cuda(row) else () if _exceeds_call(row) else _ON_CPU
    for split in splits:
        amounts = {name: number_of(row, column) for name, column in split.items()}
        known = {name: amount for name, amount in amounts.items() if amount is not None}
        if len(known) == len(split):
            return known
    return {"unsplit": required(row["latency_paired_s"]).value}


def _exceeds_call(row: Row) -> bool:
    """Whether an empty batch took longer than the whole call, which then cannot be split."""
    share = row["dispatch_share"]
    return share is not None and share.low is not None and share.low > 1 + summary.TOLERANCE


def _split(row: Row) -> str:
    latency = numbers.duration(point(row["latency_paired_s"]))
    host, device, dispatch = (
        numbers.share(point(share), 1)
        for share in (row["host_share"], row["device_share"], row["dispatch_share"])
    )
    if predicates.on_cuda(row) and host != numbers.UNKNOWN:
        return f"{latency}, host {host}, device {device}"
    if dispatch == numbers.UNKNOWN or "unsplit" in _of_call(row):
        return f"{latency}, not split"
    return f"{latency}, dispatch {dispatch}"


def _clock(title: str, name: str) -> Column:
    return Column(title, lambda row: numbers.duration(number_of(row, name)), ">", optional=True)


OVERHEAD = FigureKind(
    "overhead",
    "Where the time of a call goes",
    "bars of overhead and work, a row per mode",
    "A bar is one call: its overhead (dispatch, and on a GPU launching with what libraries do "
    "before it) in a strong colour, then on a CPU the work, on a GPU the time for which the host "
    "waits; there the thick line is how long the device is busy meanwhile.",
    _draw_overhead,
    theme.charted_table("Parts of a call", (
        _clock("latency", "latency_paired_s"),
        _clock("dispatch", "dispatch_paired_s"),
        Column("dispatch share", partial(cells.share, name="dispatch_share")),
        Column("host", cells.host_of_cuda, optional=True),
        Column("device share", partial(cells.share, name="device_share"), optional=True),
        _clock("launching and libraries", "launch_s"),
        _clock("host waits", "host_wait_s"),
        _clock("work", "work_s"),
        Column("launches", cells.launches, optional=True),
        Column("device idle", lambda row: numbers.share(row["device_idle_fraction"], 1),
               optional=True),
    )),
)  # fmt: skip

_OF_MEMORY = {
    "weights": Look("weights", _PALE),
    "inputs": Look("inputs", "#3d444c"),
    "state": Look("optimizer state", _DARK),
    "gradients": Look("gradients", _DARK, "////"),
    "workspaces": Look("workspaces of cuBLAS", _PALE, "...."),
    "kept": Look("other resident", _PALE, "||||"),
    "pool": Look("reserved by graph pool", None, "xxxx"),
    "saved": Look("saved for backward", _MIDDLE),
    "copies": Look("cast weights", _MIDDLE, "////"),
    "step": Look("rest of the call", None),
}


def _with_peak(section: pd.DataFrame) -> list[Row]:
    return [row for row in theme.charted(section) if row["peak_bytes"] is not None]


def _draw_memory(section: pd.DataFrame) -> Figure | None:
    rows = _with_peak(section)
    if not rows:
        return None
    panels = theme.panels("Memory at the peak of a call", rows,
                          lambda row: numbers.size(row["peak_bytes"]))  # fmt: skip
    parts = [[dict(memory.stack(row)) for row in panel.rows] for panel in panels]
    figure, _ = stacked(panels, parts, _OF_MEMORY, rows, size=True)
    return figure


def _memory_table(section: pd.DataFrame) -> Table:
    rows = _with_peak(section)
    used = {name for row in rows for name, _ in memory.stack(row)}
    parts = [_of_peak(name, look.name) for name, look in _OF_MEMORY.items() if name in used]
    total = Column("total", lambda row: numbers.size(row["peak_bytes"]))
    first = Column("first-call peak", lambda row: numbers.size(row["setup_peak_bytes"]))
    return table_of("Memory", rows, NAMING, (*parts, total, first))


def _of_peak(part: str, title: str) -> Column:
    def cell(row: Row) -> str:
        return numbers.size(dict(memory.stack(row)).get(part, memory.unlisted_bytes(row, part)))

    return Column(title, cell)


MEMORY = FigureKind(
    "memory",
    "Memory",
    "bars of the memory of a call by its parts, a row per mode",
    "What a call holds at its peak, from the left: what stays between calls, what is kept for the "
    "backward or are weights cast by autocast, and as an outline the rest of the call.",
    _draw_memory,
    _memory_table,
)

# Each part has the colour of the memory that it needs.
_OF_STEP = {
    "forward": Look("forward and loss", _PALE),
    "backward": Look("backward", _MIDDLE),
    "optimizer": Look("optimizer", _DARK),
    "scaler": Look("GradScaler", _DARK, "////"),
    "undivided": Look("not divided", None, "////"),
}


def _draw_step_parts(section: pd.DataFrame) -> Figure | None:
    rows = theme.charted(section)
    if all(row["parts_ratio"] is None for row in rows):
        return None
    panels = theme.panels("Parts of a training step", rows, _whole_step)
    parts = [[_of_step(row) for row in panel.rows] for panel in panels]
    figure, _ = stacked(panels, parts, _OF_STEP, rows)
    return figure


def _whole_step(row: Row) -> str:
    return f"whole step {numbers.duration(point(row['latency_paired_s']))}"


def _of_step(row: Row) -> Parts:
    if row["parts_ratio"] is None:
        return {"undivided": required(row["latency_paired_s"]).value}
    return {name: value_of(row, f"{name}_paired_s") for name in summary.parts_of(row)}


def _step_share(name: str) -> Column:
    title = f"{_OF_STEP[name].name} ÷ step [95 %]"
    return Column(title, partial(cells.share, name=f"{name}_share"), optional=True)


STEP_PARTS = FigureKind(
    "parts",
    "Parts of a training step",
    "bars of forward, backward and optimizer, a row per mode",
    "The parts of a step, timed separately and each waited for, so that they may add up to more "
    "than the whole step, which stands beside them.",
    _draw_step_parts,
    theme.charted_table("Parts", (
        *map(_step_share, summary.STEP_PARTS),
        Column("whole step [95 %]", cells.latency),
        Column("sum of parts ÷ step [95 %]", partial(cells.share, name="parts_ratio")),
    )),
)  # fmt: skip
