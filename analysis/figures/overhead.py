"""Where the time of one call goes: dispatch, launching, work and waiting, by mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from modescope.analysis.derive import profile
from modescope.analysis.derive.select import trusted
from modescope.analysis.figures.draw.bars import SKIPPED, Lane, Look, bars, length_axis
from modescope.analysis.figures.draw.canvas import MOST_ROWS, Entry, and_more
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.figures.section import charted, table_of
from modescope.analysis.format import cells, numbers, phrases, style
from modescope.analysis.format.columns import Column
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table
from modescope.bench.summary import MOST_DISPATCH, TOLERANCE

# Overhead has a strong colour, work a pale one, waiting none.
_OVERHEAD = "#a6409a"
_LOOKS = {
    "dispatch": Look("dispatch", _OVERHEAD),
    "launch": Look("launching", _OVERHEAD, "////"),
    "host": Look("host, not split", _OVERHEAD, "||||"),
    "work": Look("work", style.FADED),
    "gaps": Look("between kernels", style.FADED, "||||"),
    "wait": Look("waiting", None),
    "unsplit": Look("not split", None, "////"),
    "kernels": Look("kernels, profiled", style.FADED, "////"),
}


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
    """Stacked bars for a SECTION; None if no trusted row has a split.

    On a CPU a call is dispatch and then work. A second bar shows the profiled kernels, aligned with
    the end of the call: they overlap dispatch as far as they contain a part of it. On CUDA host and
    device run in parallel and have a bar each, with their waiting and the pauses between kernels. A
    row whose split is unknown is an outline.
    """
    rows = charted(section)
    drawn = [(Entry(phrases.variant(row), _numbers(row), row), _lanes(row)) for row in rows]
    used = {name for _, lanes in drawn for lane in lanes for name, _ in lane}
    if used <= {"unsplit", "kernels", SKIPPED}:
        return None
    shown = drawn[:MOST_ROWS]
    two = max(len(lanes) for _, lanes in shown) > 1
    foot = and_more(_foot(rows[0]) if two else "", len(rows) - len(shown))
    with matplotlib.rc_context(style.RC):
        stack, axes = bars(
            "Where the time of one call goes", shown, _LOOKS, f"{foot}\n{phrases.work(rows[0])}"
        )
        length_axis(axes, numbers.tick)
    return stack.figure


def _foot(row: Row) -> str:
    if phrases.on_cuda(row):
        return "upper bar: host; lower bar: device"
    return "upper bar: by clocks; lower bar: by the profiler"


def _lanes(row: Row) -> list[Lane]:
    if phrases.on_cuda(row):
        lanes = [_host(row), _device(row)]
    else:
        clocks = _known(("dispatch", row["dispatch_paired_s"]), ("work", row["work_s"]))
        lanes = [] if _exceeds_call(row) else [clocks, _kernels(row)]
    return [lane for lane in lanes if lane] or [[("unsplit", row["latency_paired_s"])]]


def _exceeds_call(row: Row) -> bool:
    """Whether an empty batch took longer than the whole call on a CPU, which cannot be split."""
    low = row["dispatch_share_ci_low"]
    return low is not None and low > 1 + TOLERANCE


def _kernels(row: Row) -> Lane:
    if row["residual_s"] is None:
        return []
    kernels_s = row["work_s"] - row["residual_s"]  # scaled to all processes of the case
    return [(SKIPPED, max(row["latency_paired_s"] - kernels_s, 0.0)), ("kernels", kernels_s)]


def _host(row: Row) -> Lane:
    wait = ("wait", row["host_wait_s"])
    dispatch = ("dispatch", row["dispatch_paired_s"])
    parts = _known(dispatch, ("launch", row["launch_s"]), wait)
    return parts or _known(("host", row["host_paired_s"]), wait)


def _device(row: Row) -> Lane:
    wait = ("wait", row["device_idle_s"])
    if (row["residual_s"] or 0.0) > 0:
        busy_s = row["work_s"] - row["residual_s"]
        return _known(("work", busy_s), ("gaps", row["residual_s"]), wait)
    return _known(("work", row["work_s"]), wait)


def _known(*named: tuple[str, float | None]) -> Lane:
    """All parts, or none if one is unknown: a bar without a part would look shorter."""
    lane = [(name, seconds) for name, seconds in named if seconds is not None]
    return lane if len(lane) == len(named) else []


def _numbers(row: Row) -> str:
    if phrases.on_cuda(row) and row["host_share"] is not None:
        return f"{numbers.duration(row['latency_paired_s'])}, {_host_and_device(row)}"
    if row["dispatch_share"] is None:
        return f"{numbers.duration(row['latency_paired_s'])}, split unknown"
    if not phrases.on_cuda(row) and _exceeds_call(row):
        return f"{numbers.duration(row['latency_paired_s'])}, dispatch contradicts it"
    part = numbers.share(row["dispatch_share"], 1)
    dispatch = f"dispatch {numbers.duration(row['dispatch_paired_s'])}, {part}"
    unchecked = row["residual_s"] is not None and not profile.is_checked(row)
    return f"{dispatch}, not checked by profile" if unchecked else dispatch


def caption(section: pd.DataFrame) -> str | None:
    """What bounds each mode, and whether the profile agrees; None without a trusted row."""
    rows = phrases.as_rows(trusted(section))
    if not rows:
        return None
    sentences = [
        f"{title}: {', '.join(modes)}"
        for side, title in _titles(rows[0]).items()
        if (modes := [_split(row) for row in rows if _bound_by(row) == side])
    ]
    unknown = [row for row in rows if _bound_by(row) is None]
    reasons = phrases.with_reasons(unknown, _why_unknown)
    if not sentences:
        return f"Where the time goes is unknown: {reasons}.{_around_compiled(rows)}"
    sentences += [f"Unknown: {reasons}"] if unknown else []
    checked = [row for row in rows if profile.is_checked(row)]
    split = [row for row in rows if _bound_by(row) is not None]
    unchecked = [row for row in split if not profile.is_checked(row)]
    profiled = _worst(checked) + _unchecked(unchecked, alone=not checked)
    return f"{'. '.join(sentences)}.{profiled}{_around_compiled(rows)}"


def _bound_by(row: Row) -> str | None:
    side: str | None = row["bound_by"]
    return None if not phrases.on_cuda(row) and _exceeds_call(row) else side


def _worst(checked: Sequence[Row]) -> str:
    if not checked:
        return ""
    worst = max(checked, key=lambda row: abs(row["residual_s"]) / row["work_s"])
    more = "more" if worst["residual_s"] < 0 else "less"
    share = numbers.share(abs(worst["residual_s"]), worst["work_s"])
    return (
        f" The profile has at most {share} {more} work than the clocks ({phrases.variant(worst)})."
    )


def _unchecked(rows: Sequence[Row], alone: bool) -> str:
    if not rows:
        return ""
    reason, *others = {_why_unchecked(row) for row in rows}
    said = reason if alone and not others else phrases.with_reasons(rows, _why_unchecked)
    return f" Not checked against a profile: {said}."


def _why_unchecked(row: Row) -> str:
    if row["residual_s"] is None:
        return "no reliable profile"
    most = numbers.whole_percent(MOST_DISPATCH)
    return f"dispatch is more than {most} of the call, and profiled kernels include part of it"


def _around_compiled(rows: Sequence[Row]) -> str:
    """Shares of the lookup and of the Python around it in a profiled call, by compiled mode."""
    calls = [(row, profile.compiled_call(row)) for row in rows]
    known = [
        f"{phrases.variant(row)} {numbers.share(call.lookup_s, call.span_s)} and "
        f"{numbers.share(call.wrapper_s, call.span_s)}"
        for row, call in calls
        if call is not None
    ]
    if not known:
        return ""
    what = "Cache lookup (guards) and the Python around compiled code take"
    return f" {what}, of the profiled call: {', '.join(known)}."


def _titles(row: Row) -> dict[str, str]:
    if phrases.on_cuda(row):
        return {
            "overhead": "The host is busy for longer than the device, so fewer launches help",
            "work": "The device is busy for longer than the host, so only less work helps",
            "undecided": "The intervals do not decide whether host or device is busy for longer",
        }
    return {
        "overhead": "Dispatch is more than half of the call, so fewer operators help",
        "work": "Dispatch is less than half of the call, so faster kernels help more",
        "undecided": "The intervals do not decide whether dispatch is more than half of the call",
    }


def _split(row: Row) -> str:
    """`eager fp32 (81 %)` on a CPU; `eager fp32 (host 91 %, device 30 %)` on CUDA."""
    if phrases.on_cuda(row):
        known = row["device_idle_fraction"]
        idle = "" if known is None else f", idle {numbers.share(known, 1)}"
        return f"{phrases.variant(row)} ({_host_and_device(row)}{idle})"
    return f"{phrases.variant(row)} ({numbers.share(row['dispatch_share'], 1)})"


def _host_and_device(row: Row) -> str:
    """`host 91 %, device 30 %`: how much of the call each is busy."""
    host, device = (numbers.share(row[f"{clock}_share"], 1) for clock in ("host", "device"))
    return f"host {host}, device {device}"


def _why_unknown(row: Row) -> str:
    clock = "device" if phrases.on_cuda(row) else "dispatch"
    if not phrases.on_cuda(row) and _exceeds_call(row):
        share = numbers.share(row["dispatch_share"], 1)
        return f"dispatch was measured at {share} of the call, so the clocks contradict each other"
    if row[f"{clock}_s"]:
        return f"no interval of the {clock} time"
    return row[f"{clock}_note"] or "not measured"


def table(section: pd.DataFrame) -> Table:
    """The parts of a call in each mode."""
    return table_of("Parts of a call", section, _COLUMNS)


FIGURE = FigureKind(
    "overhead", "Where the time of a call goes", "stacked bars of dispatch and work by mode",
    draw, caption, table,
)  # fmt: skip
