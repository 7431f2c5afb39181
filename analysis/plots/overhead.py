"""Where the time of one call goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import style, words
from analysis.plots.canvas import MOST_ROWS, and_more, beside, stacked
from analysis.rows import trusted
from analysis.words import Row

Lane = list[tuple[str, float]]  # parts of a bar: name in style.LOOKS, seconds
_THICK = 0.62  # of a row, in rows


def overhead(section: pd.DataFrame) -> Figure | None:
    """Stacked bars for a SECTION; None where no trusted row has a split.

    On a CPU a call is dispatch and then work. On CUDA host and device run side by side and have a
    bar each: what the host does and how long it waits, what the device does and how long it waits.
    A row whose split is unknown is an outline.
    """
    rows = sorted(words.as_rows(trusted(section)), key=style.order)
    shown = rows[:MOST_ROWS]
    lanes = [_lanes(row) for row in shown]
    used = dict.fromkeys(name for each in lanes for lane in each for name, _ in lane)
    if set(used) <= {"unsplit"}:
        return None
    title = f"{words.work(rows[0])}: where the time of one call goes"
    foot = "upper bar: host; lower bar: device" if max(map(len, lanes)) > 1 else ""
    names = [words.variant(row) for row in shown]
    with matplotlib.rc_context(style.RC):
        high = 0.4 if foot else 0.27
        figure, (axes,) = stacked(
            [(title, names)], and_more(foot, len(rows) - len(shown)), high, room=0.2
        )
        for place, (row, each) in enumerate(zip(shown, lanes, strict=True)):
            _bars(axes, place, each)
            beside(axes, place, _numbers(row))
        axes.set_xlim(0, None)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: words.tick(seconds)))
        _legend(figure, [name for name in style.LOOKS if name in used])
    return figure


def _lanes(row: Row) -> list[Lane]:
    if words.on_cuda(row):
        found = [_host(row), _device(row)]
    else:
        found = [_known(("dispatch", row["dispatch_s"]), ("work", row["work_s"]))]
    return [lane for lane in found if lane] or [[("unsplit", row["latency_s"])]]


def _host(row: Row) -> Lane:
    wait = ("wait", row["host_wait_s"])
    split = _known(("dispatch", row["dispatch_s"]), ("launch", row["launch_s"]), wait)
    return split or _known(("host", row["host_s"]), wait)


def _device(row: Row) -> Lane:
    return _known(("work", row["work_s"]), ("wait", row["device_idle_s"]))


def _known(*named: tuple[str, float | None]) -> Lane:
    """All of them, or none where one is unknown: a bar with a gap would be read as shorter."""
    lane = [(name, seconds) for name, seconds in named if seconds is not None]
    return lane if len(lane) == len(named) else []


def _bars(axes: Axes, place: int, lanes: Sequence[Lane]) -> None:
    thick = _THICK / len(lanes)
    for number, lane in enumerate(lanes):
        middle = place + (number - (len(lanes) - 1) / 2) * thick
        start = 0.0
        for name, seconds in lane:
            axes.barh(middle, seconds, height=thick * 0.92, left=start, **_style(name))
            start += seconds


def _style(name: str) -> dict[str, Any]:
    look = style.LOOKS[name]
    edge = style.INK if look.fill else style.FADED
    return {
        "facecolor": look.fill or "none",
        "edgecolor": edge,
        "hatch": look.hatch,
        "linewidth": 0.6,
    }


def _numbers(row: Row) -> str:
    if words.on_cuda(row) and row["host_s"] is not None:
        host, device = words.duration(row["host_s"]), words.duration(row["device_s"])
        return f"host {host}, device {device}"
    if row["dispatch_s"] is None:
        return f"{words.duration(row['latency_s'])}, split unknown"
    part = words.share(row["dispatch_s"], row["latency_s"])
    return f"dispatch {words.duration(row['dispatch_s'])}, {part}"


def _legend(figure: Figure, names: Sequence[str]) -> None:
    patches = [Patch(label=style.LOOKS[name].name, **_style(name)) for name in names]
    figure.legend(handles=patches, loc="lower right", ncols=len(names), frameon=False,
                  fontsize=8)  # fmt: skip
