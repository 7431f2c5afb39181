"""Where the time of one call goes: overhead and work, by mode."""

from __future__ import annotations

from functools import partial

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import Look, Parts, stacked
from modescope.analysis.figures.theme import table_of
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.summary import TOLERANCE

CAPTION = (
    "A bar is one call: its overhead (dispatch, and on a GPU launching) in a strong colour, then "
    "on a CPU the work, on a GPU the time for which the host waits; there the thick line is how "
    "long the device is busy meanwhile."
)
# Overhead has a strong colour, work a pale one, waiting none.
_OVERHEAD = "#a6409a"
_LOOKS = {
    "dispatch": Look("dispatch", _OVERHEAD),
    "launch": Look("launching", _OVERHEAD, "////"),
    "host": Look("host, not split", _OVERHEAD, "||||"),
    "work": Look("work", theme.PALE),
    "wait": Look("waiting", None),
    "unsplit": Look("not split", None, "////"),
}
# part -> its column; of several splits the first that is known is drawn
_ON_CPU = ({"dispatch": "dispatch_paired_s", "work": "work_s"},)
_ON_CUDA = (
    {"dispatch": "dispatch_paired_s", "launch": "launch_s", "wait": "host_wait_s"},
    {"host": "host_paired_s", "wait": "host_wait_s"},
)


def _clock(title: str, name: str) -> Column:
    return Column(title, lambda row: numbers.duration(row[name]), ">", optional=True)


_COLUMNS = (
    _clock("latency", "latency_paired_s"),
    _clock("dispatch", "dispatch_paired_s"),
    Column("dispatch share", partial(cells.share, name="dispatch_share")),
    Column("host", cells.host_of_cuda, optional=True),
    Column("host share", cells.host_share_of_cuda, optional=True),
    Column("device share", partial(cells.share, name="device_share"), optional=True),
    _clock("launching", "launch_s"),
    _clock("host waits", "host_wait_s"),
    _clock("work", "work_s"),
    Column("work not in the profile", cells.residual, optional=True),
    Column("launches", cells.launches, optional=True),
    Column("device idle", lambda row: numbers.share(row["device_idle_fraction"], 1), optional=True),
)


def draw(section: pd.DataFrame) -> Figure | None:
    """A bar per mode of a SECTION; None if no trusted row has a split.

    On a GPU host and device work at the same time: the bar is the host's call, and a line marks for
    how long the device is busy in it.
    """
    rows = theme.charted(section)
    if all("unsplit" in _parts(row) for row in rows):
        return None
    panels = theme.panels("Where the time of a call goes", rows, _numbers)
    busy = Line2D([], [], color=style.INK, marker="|", linestyle="none", markersize=9,
                  markeredgewidth=2, label="device busy")  # fmt: skip
    marked = [row for row in rows if phrases.on_cuda(row) and row["work_s"] is not None]
    parts = [[_parts(row) for row in panel.rows] for panel in panels]
    figure, drawn = stacked(panels, parts, _LOOKS, rows, further=[busy] if marked else ())
    for (axes, scale), panel in zip(drawn, panels, strict=True):
        places = {place: row["work_s"] / scale for place, row in enumerate(panel.rows)
                  if row in marked}  # fmt: skip
        axes.plot(list(places.values()), list(places), color=style.INK, marker="|",
                  linestyle="none", markersize=13, markeredgewidth=2)  # fmt: skip
    return figure


def _parts(row: Row) -> Parts:
    """The parts of a bar; a bar without one of them would look shorter, so they are all known."""
    splits = _ON_CUDA if phrases.on_cuda(row) else () if _exceeds_call(row) else _ON_CPU
    known = (split for split in splits if None not in (row[column] for column in split.values()))
    split = next(known, {"unsplit": "latency_paired_s"})
    return {name: row[column] for name, column in split.items()}


def _exceeds_call(row: Row) -> bool:
    """Whether an empty batch took longer than the whole call on a CPU, which cannot be split."""
    low = row["dispatch_share_ci_low"]
    return not phrases.on_cuda(row) and low is not None and low > 1 + TOLERANCE


def _numbers(row: Row) -> str:
    latency = numbers.duration(row["latency_paired_s"])
    if phrases.on_cuda(row) and row["host_share"] is not None:
        host, device = (numbers.share(row[f"{clock}_share"], 1) for clock in ("host", "device"))
        return f"{latency}, host {host}, device {device}"
    if row["dispatch_share"] is None or "unsplit" in _parts(row):
        return f"{latency}, not split"
    return f"{latency}, dispatch {numbers.share(row['dispatch_share'], 1)}"


def table(section: pd.DataFrame) -> Table:
    """The parts of a call in each mode."""
    return table_of("Parts of a call", section, _COLUMNS)
