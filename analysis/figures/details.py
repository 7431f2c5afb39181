"""Small collapsed tables beneath the figures of a section or a series."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from modescope.analysis.derive import profile
from modescope.analysis.derive.profile import CompiledCall
from modescope.analysis.derive.series import Series, by_slope
from modescope.analysis.figures.scaling import bound, ordered
from modescope.analysis.format import numbers, phrases
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
    for line in (*known, *(line for line in ordered(series) if line not in known)):
        slope = (numbers.estimate(line.slope),) if series.is_chain else ()
        sizes = f"{min(line.sizes)} to {max(line.sizes)}, {len(line.sizes)} rows"
        yield line.name, sizes, *slope, bound(line, series.overhead, series.size)
