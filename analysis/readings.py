"""One sentence under each figure: what it shows, decided on intervals, or that it cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pandas as pd

from analysis import numbers, replicates, split, style, words
from analysis.bounds import Overhead
from analysis.rows import trusted
from analysis.series import Line, Series, by_slope
from analysis.words import Row
from bench.stats import Estimate


def latency(section: pd.DataFrame) -> str | None:
    """Which mode has the shortest latency? None where nothing is charted."""
    rows = words.as_rows(trusted(section))
    if not rows:
        return None
    best = min(rows, key=lambda row: row["latency_ci_high_s"])
    if len(rows) == 1:
        return f"Only {words.variant(best)} is charted: {words.latency(best)}."
    close = [
        words.variant(row)
        for row in rows
        if row is not best and row["latency_ci_low_s"] <= best["latency_ci_high_s"]
    ]
    overlap = (
        f"the intervals of {words.listed(close)} overlap it" if close else "no interval overlaps it"
    )
    return f"Shortest: {words.variant(best)}, {words.latency(best)}; {overlap}. {_caution(rows)}"


def _caution(rows: Iterable[Row]) -> str:
    if all(row["replicates"] >= replicates.ENOUGH for row in rows):
        return "Each interval is over fresh processes, so it holds for the next one too."
    return (
        "An interval holds within its processes, and others of the same code differ by more: "
        "speedups, which are paired, are the safer comparison."
    )


def overhead(section: pd.DataFrame) -> str | None:
    """Is it overhead or work that a call's time goes to? None where nothing is charted."""
    rows = words.as_rows(trusted(section))
    if not rows:
        return None
    told = [
        f"{title}: {', '.join(found)}"
        for side, title in _titles(rows[0]).items()
        if (found := [_split(row) for row in rows if row["bound_by"] == side])
    ]
    if not told:
        return f"This data cannot say where the time goes: {_why_unknown(rows)}."
    unknown = [row for row in rows if row["bound_by"] is None]
    told += [f"Cannot be said: {_why_unknown(unknown)}"] if unknown else []
    return f"{'. '.join(told)}.{_profiled(rows)}"


def _profiled(rows: Sequence[Row]) -> str:
    """How far the profiler is from the clocks, at worst, and of which splits it cannot say."""
    told = [row for row in rows if row["bound_by"] is not None]
    checked = [row for row in rows if split.checked(row)]
    unchecked = [row for row in told if not split.checked(row)]
    return _worst(checked) + _unchecked(unchecked, alone=not checked)


def _worst(checked: Sequence[Row]) -> str:
    if not checked:
        return ""
    worst = max(checked, key=lambda row: abs(row["residual_s"]) / row["work_s"])
    more = "more" if worst["residual_s"] < 0 else "less"
    share = numbers.share(abs(worst["residual_s"]), worst["work_s"])
    return (
        f" The profiler saw at most {share} {more} work than the clocks ({words.variant(worst)})."
    )


def _unchecked(rows: Sequence[Row], alone: bool) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(_why_unchecked(row), []).append(words.variant(row))
    if alone and len(reasons) == 1:
        return f" Not checked against a profile: {', '.join(reasons)}."
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return f" Not checked against a profile: {told}." if told else ""


def _why_unchecked(row: Row) -> str:
    seen_s = row["device_busy_s" if words.on_cuda(row) else "kernels_s"]
    if seen_s is None or not split.DOUBTS.isdisjoint(words.flags(row)):
        return "there is none to rely on"
    most = numbers.whole_percent(split.MOST_DISPATCH)
    return f"more than {most} of the call is dispatch, and kernels contain a part of that"


def _titles(row: Row) -> dict[str, str]:
    if words.on_cuda(row):
        return {
            "overhead": "The host is busy for longer than the device, so fewer launches help",
            "work": "The device is busy for longer than the host, so only less work helps",
            "undecided": "Host and device take as long as each other within their intervals",
        }
    return {
        "overhead": "Dispatch is more than half of the call, so fewer operators help",
        "work": "Dispatch is less than half of the call, so faster kernels help more",
        "undecided": "Whether dispatch is more than half the intervals leave open",
    }


def _split(row: Row) -> str:
    """`eager 81 %` on a CPU; `eager 120 µs against 40 µs` where host and device run in parallel."""
    if words.on_cuda(row):
        host, device = numbers.duration(row["host_s"]), numbers.duration(row["device_s"])
        known = row["device_idle_fraction"]
        idle = "" if known is None else f", idle {numbers.share(known, 1)}"
        return f"{words.variant(row)} (host {host}, device {device}{idle})"
    return f"{words.variant(row)} ({numbers.share(row['dispatch_s'], row['latency_s'])})"


def _why_unknown(rows: Iterable[Row]) -> str:
    reasons: dict[str, list[str]] = {}
    for row in rows:
        clock = "device" if words.on_cuda(row) else "dispatch"
        unread = row[f"{clock}_note"] or "not measured"
        reason = f"no interval of the {clock} time" if row[f"{clock}_s"] else unread
        reasons.setdefault(reason, []).append(words.variant(row))
    return "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())


def slopes(chain: Series) -> str | None:
    """What does each mode pay for an operator, cheapest first? None where no slope is known."""
    known = by_slope(chain)
    if not known:
        return None
    text = _slope(*known[0])
    for (_, cheaper), (name, dearer) in pairwise(known):
        text += f"{',' if _is_dearer(cheaper, dearer) else ' ≈'} {_slope(name, dearer)}"
    overlaps = " (≈: the intervals overlap)" if "≈" in text else ""
    what = chain.overhead.name.capitalize()
    return f"{what} per {chain.unit}, cheapest first: {text}{overlaps}."


def _is_dearer(lesser: Estimate, greater: Estimate) -> bool:
    ends = lesser.high, greater.low
    return ends[0] is not None and ends[1] is not None and ends[0] < ends[1]


def _slope(line: Line, slope: Estimate) -> str:
    return f"{line.name} {numbers.estimate(slope)}"


def bounds(found: Series) -> str:
    """At which sizes is each mode bound by overhead?"""
    told: dict[str, list[str]] = {}
    for line in sorted(found.lines, key=lambda line: style.order(line.rows[0])):
        told.setdefault(bound(line, found), []).append(line.name)
    listed = "; ".join(f"{', '.join(names)} {where}" for where, names in told.items())
    return f"Bound by overhead, as {found.overhead.exceeds}: {listed}."


def bound(line: Line, found: Series) -> str:
    """`up to about ops 49 (surely between 32 and 64)`: where overhead sets the time of a call."""
    if line.crossing is not None:
        at, after, before = line.crossing.size, line.crossing.after, line.crossing.before
        rounded = float(f"{at:.2g}")  # two digits are all that a line allows
        about = f"about {found.size} {rounded:g}"
        where = f"up to {about}" if line.crossing.falling else f"from {about} on"
        sure = after is not None and before is not None
        doubt = f"surely between {after} and {before}" if sure else "not certain by the intervals"
        return f"{where} ({doubt})"
    sides = {row["bound_by"] for row in line.rows}
    side = sides.pop() if len(sides) == 1 else "undecided"
    return _THROUGHOUT.get(side) or f"unknown, for want of {_clocks(found.overhead)}"


def _clocks(kind: Overhead) -> str:
    """The times without which it is unknown; every row has a latency."""
    return " or ".join(clock for clock in (kind.clock, kind.against) if clock != "latency")


_THROUGHOUT = {
    "overhead": "at every size",
    "work": "at no size",
    "undecided": "undecided by the intervals",
}
