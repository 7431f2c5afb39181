"""Figure of kernels of the user's own: what each mode takes with and without them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import Look, stacked
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import cells, numbers, style
from modescope.analysis.format.columns import Column
from modescope.analysis.rows.type import Row
from modescope.analysis.rows.values import required
from modescope.bench.records.cases import KERNELS, TORCH

_LOOKS = {
    TORCH: Look("torch", "#b6bec7"),
    KERNELS: Look("kernels of your own", "#c29b2c", "////"),
}


def kernels(row: Row) -> str:
    """Returns the implementation that a row calls: `torch`, or a name of model.kernels."""
    return str(json.loads(row["axes"] or "{}").get(KERNELS, TORCH))


def moved_bytes(row: Row) -> float | None:
    """Returns the bytes that the operators of a call move, as generated code or torch counts them.

    None in eager with kernels of the user's own, of which only the model's own work is counted.
    """
    if row["compile_mode"] != "none":
        return row["bytes_accessed"]
    return row["eager_bytes"] if kernels(row) == TORCH else None


def _draw(section: pd.DataFrame) -> Figure | None:
    rows = theme.charted(section)
    if all(kernels(row) == TORCH for row in rows):
        return None
    panels = theme.panels("With and without kernels of your own", rows, _numbers)
    bars = [
        [
            {TORCH if kernels(row) == TORCH else KERNELS: required(row["latency_paired_s"]).value}
            for row in panel.rows
        ]
        for panel in panels
    ]
    line: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "linestyle": "--"}
    floors = [row["floor_s"] for row in rows if row["floor_s"]]
    marks = [Line2D([], [], label="least possible time (roofline)", **line)] if floors else []
    figure, drawn = stacked(panels, bars, _LOOKS, rows, further=marks)
    for (axes, scale), panel in zip(drawn, panels, strict=True):
        least = [row["floor_s"] for row in panel.rows if row["floor_s"]]
        if least:  # of one work: the ceilings of processes differ a little
            axes.axvline(min(least) / scale, **line)
    return figure


def _numbers(row: Row) -> str:
    latency = numbers.duration(required(row["latency_paired_s"]).value)
    return f"{latency}, {numbers.size(moved_bytes(row))}"


OWN_KERNELS = FigureKind(
    "kernels",
    "Kernels of your own",
    "bars of the time of a call with and without kernels of the user's own, a row per mode",
    "A bar is the time of a call, hatched where it calls kernels of your own; beside it stand the "
    "bytes that its operators move, as far as they are known. What compiled code cannot fuse into "
    "a kernel moves more. The dashed line is the least possible time of the work on this device.",
    _draw,
    theme.charted_table("Kernels of your own", (
        Column("kernels", kernels),
        Column("latency [95 %]", cells.latency),
        Column("speedup [95 %]", cells.speedup),
        Column("bytes moved", lambda row: numbers.size(moved_bytes(row))),
        Column("least possible", lambda row: numbers.duration(row["floor_s"])),
        Column("use", lambda row: row["kernel_use"] or ""),
    )),
)  # fmt: skip
