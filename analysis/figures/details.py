"""Small collapsed tables beneath the figures of a section or a series."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from modescope.analysis.derive import profile
from modescope.analysis.derive.profile import CompiledCall
from modescope.analysis.derive.series import Line, Series, by_slope
from modescope.analysis.derive.split import Overhead
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.columns import COUNTED, NAMING, Column, distinguishing, wanted
from modescope.analysis.format.phrases import Row
from modescope.analysis.format.tables import Table, of_columns


def _part(title: str, seconds: Callable[[CompiledCall], float]) -> Column:
    """`12.0 µs (5 %)`: a part of the profiled call, and its share."""

    def cell(row: Row) -> str:
        call = profile.compiled_call(row)
        if call is None:
            return numbers.UNKNOWN
        part_s = seconds(call)
        return f"{numbers.duration(part_s)} ({numbers.share(part_s, call.span_s)})"

    return Column(title, cell, ">")


_OF_COMPILED_CALL = (
    Column("profiled call", lambda row: numbers.duration(row["profiled_span_s"]), ">"),
    _part("cache lookup (guards)", lambda call: call.lookup_s),
    _part("Python around", lambda call: call.wrapper_s),
    _part("compiled code and the rest", lambda call: call.rest_s),
)


def of_section(section: pd.DataFrame) -> Iterator[Table]:
    """The counts of one call, the parts of compiled ones, and the heaviest kernels and operators.

    Includes rows that ended ok without being in effect: their counts describe what ran.
    """
    rows = phrases.as_rows(section)
    ok = [row for row in rows if row["status"] == "ok"]
    naming = (*NAMING, *distinguishing(rows))
    if wanted(COUNTED, ok):
        yield of_columns("Operators, generated code and allocations", ok, naming, COUNTED)
    if compiled := [row for row in ok if profile.compiled_call(row) is not None]:
        title = "Calls of compiled code, by the profiler"
        yield of_columns(title, compiled, naming, _OF_COMPILED_CALL)
    for kind in profile.KINDS:
        if lines := tuple(profile.heaviest(ok, kind)):
            yield Table(kind.title, kind.titles, profile.NAMED, lines)


def of_series(series: Series) -> Table:
    """The measured sizes, and those at which each mode is bound by overhead."""
    slope = (f"{series.overhead.name} per {series.unit} [95 %]",) if series.is_chain else ()
    titles = ("mode", f"{series.size} measured", *slope, "bound by overhead")
    return Table("Bound by overhead", titles, len(titles), tuple(_bound_lines(series)))


def _bound_lines(series: Series) -> Iterator[tuple[str, ...]]:
    """A line per mode; for a chain of operators the cheapest overhead first."""
    known = [line for line, _ in by_slope(series)] if series.is_chain else []
    rest = sorted(series.lines, key=lambda line: style.order(line.rows[0]))
    for line in (*known, *(line for line in rest if line not in known)):
        slope = (numbers.estimate(line.slope),) if series.is_chain else ()
        sizes = f"{min(line.sizes)} to {max(line.sizes)}, {len(line.sizes)} rows"
        yield line.name, sizes, *slope, _bound(line, series.overhead, series.size)


def _bound(line: Line, overhead: Overhead, size: str) -> str:
    """`up to about ops 49 (by the intervals between 32 and 64)`: where overhead sets the time."""
    if (crossing := line.crossing) is not None:
        rounded = float(f"{crossing.size:.2g}")  # interpolation gives no more than two digits
        about = f"about {size} {rounded:g}"
        where = f"up to {about}" if crossing.falling else f"from {about} on"
        after, before = crossing.after, crossing.before
        sure = after is not None and before is not None
        ends = f"between {after} and {before}" if sure else "undecided"
        return f"{where} (by the intervals {ends})"
    sides = {row["bound_by"] for row in line.rows}
    side = sides.pop() if len(sides) == 1 else "undecided"
    # every row has a latency
    needed = [clock for clock in (overhead.clock, overhead.against) if clock != "latency"]
    return _THROUGHOUT.get(side) or f"unknown, as {' or '.join(needed)} time is missing"


_THROUGHOUT = {
    "overhead": "at every size",
    "work": "at no size",
    "undecided": "undecided by the intervals",
}
