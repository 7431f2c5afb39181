"""Where the time of one call goes."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from analysis import numbers, split, style, words
from analysis.plots.bars import SKIPPED, Lane, axis, bars
from analysis.plots.canvas import MOST_ROWS, Entry, and_more
from analysis.rows import trusted
from analysis.words import Row


def overhead(section: pd.DataFrame) -> Figure | None:
    """Stacked bars for a SECTION; None where no trusted row has a split.

    On a CPU a call is dispatch and then work. Beneath are the kernels that the profiler saw, up to
    the end of the call: they reach as far into dispatch as they contain a part of it, and where
    that may be much of them they check nothing. On CUDA host
    and device run side by side and have a bar each: what the host does and how long it waits, what
    the device does, how long it pauses between kernels and how long it waits. A row whose split is
    unknown is an outline.
    """
    rows = sorted(words.as_rows(trusted(section)), key=style.order)
    drawn = [(Entry(words.variant(row), _numbers(row), row), _lanes(row)) for row in rows]
    used = {name for _, lanes in drawn for lane in lanes for name, _ in lane}
    if used <= {"unsplit", "kernels", SKIPPED}:
        return None
    shown = drawn[:MOST_ROWS]
    two = max(len(lanes) for _, lanes in shown) > 1
    foot = and_more(_foot(rows[0]) if two else "", len(rows) - len(shown))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Where the time of one call goes", shown, style.LOOKS, f"{foot}\n{words.work(rows[0])}"
        )
        axis(axes, numbers.tick)
    return stack.figure


def _foot(row: Row) -> str:
    if words.on_cuda(row):
        return "upper bar: host; lower bar: device"
    return "upper bar: by clocks; lower bar: by the profiler"


def _lanes(row: Row) -> list[Lane]:
    if words.on_cuda(row):
        found = [_host(row), _device(row)]
    else:
        found = [
            _known(("dispatch", row["dispatch_s"]), ("work", row["work_s"])),
            _kernels(row),
        ]
    return [lane for lane in found if lane] or [[("unsplit", row["latency_s"])]]


def _kernels(row: Row) -> Lane:
    if row["residual_s"] is None:
        return []
    kernels_s = row["work_s"] - row["residual_s"]  # at the pace of all processes of the case
    return [(SKIPPED, max(row["latency_s"] - kernels_s, 0.0)), ("kernels", kernels_s)]


def _host(row: Row) -> Lane:
    wait = ("wait", row["host_wait_s"])
    split = _known(("dispatch", row["dispatch_s"]), ("launch", row["launch_s"]), wait)
    return split or _known(("host", row["host_s"]), wait)


def _device(row: Row) -> Lane:
    wait = ("wait", row["device_idle_s"])
    if (row["residual_s"] or 0.0) > 0:
        busy_s = row["work_s"] - row["residual_s"]
        return _known(("work", busy_s), ("gaps", row["residual_s"]), wait)
    return _known(("work", row["work_s"]), wait)


def _known(*named: tuple[str, float | None]) -> Lane:
    """All of them, or none where one is unknown: a bar with a gap would be read as shorter."""
    lane = [(name, seconds) for name, seconds in named if seconds is not None]
    return lane if len(lane) == len(named) else []


def _numbers(row: Row) -> str:
    if words.on_cuda(row) and row["host_s"] is not None:
        return f"host {numbers.duration(row['host_s'])}, device {numbers.duration(row['device_s'])}"
    if row["dispatch_s"] is None:
        return f"{numbers.duration(row['latency_s'])}, split unknown"
    part = numbers.share(row["dispatch_s"], row["latency_s"])
    dispatch = f"dispatch {numbers.duration(row['dispatch_s'])}, {part}"
    unchecked = row["residual_s"] is not None and not split.checked(row)
    return f"{dispatch}, profile checks nothing" if unchecked else dispatch
