"""Lists the kinds of figures in a report, draws them, and builds the tables below them.

Only this module and the modules of the figures import seaborn, which takes two seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from modescope.analysis.derive import profile
from modescope.analysis.derive.series import Line, SizeSeries, by_slope
from modescope.analysis.derive.split import Overhead
from modescope.analysis.figures import theme
from modescope.analysis.figures.bars import MEMORY, OVERHEAD, STEP_PARTS
from modescope.analysis.figures.bits import BITS
from modescope.analysis.figures.cold import COLD
from modescope.analysis.figures.own_kernels import OWN_KERNELS
from modescope.analysis.figures.points import FUSION, SPEEDUP
from modescope.analysis.figures.sizes import FIRST_PASS, HEATMAP, SCALING
from modescope.analysis.figures.starts import STARTS
from modescope.analysis.figures.steps import STEPS
from modescope.analysis.figures.theme import FigureKind
from modescope.analysis.format import numbers, style
from modescope.analysis.format.columns import COUNTED, Table, naming, table_of, wanted
from modescope.analysis.rows.values import as_rows
from modescope.bench.records.outcomes import Status

OF_SECTION = (  # one work at one size
    SPEEDUP, OWN_KERNELS, FIRST_PASS, STEPS, OVERHEAD, FUSION, MEMORY, STEP_PARTS,
    STARTS,
)  # fmt: skip
OF_DATA = (COLD,)  # one work at one size, with warm and with cold data
OF_GRIDS = (HEATMAP,)  # one work at all sizes
OF_SERIES = (SCALING, BITS)  # one work over one size


@dataclass(frozen=True)
class Picture:
    """A drawn figure with its caption and table.

    `svg` is the content of `file`, the name of an SVG file; `inline` is the same drawing as a part
    of an HTML page, and `narrow` the same drawn for a phone.
    """

    kind: FigureKind
    file: str
    caption: str
    svg: str
    inline: Markup
    narrow: Markup
    table: Table


def pictures(kinds: Iterable[FigureKind], topic: Any, name: str) -> Iterator[Picture]:
    """Yields a picture of `topic` for each of `kinds`, drawn on demand; empty figures are left out.

    `topic` is what these kinds draw (see FigureKind): rows, a list of Grid, or a SizeSeries. File
    names are `<kind>-<name>.svg`.
    """
    for kind in kinds:
        with theme.look():
            figure = kind.draw(topic)
        if figure is not None:
            drawn = theme.svg(figure, f"{kind.name}-{name}")
            inline = Markup(theme.inline(drawn))
            with theme.look(theme.NARROW):
                small = theme.svg(kind.draw(topic) or figure, f"{kind.name}-{name}-narrow")
            narrow = Markup(theme.inline(small))
            file = f"{kind.name}-{name}.svg"
            caption, table = _caption(kind, topic), kind.table(topic)
            yield Picture(kind, file, caption, theme.on_paper(drawn), inline, narrow, table)


def _caption(kind: FigureKind, topic: Any) -> str:
    if kind.coloured is None:
        return kind.caption
    colours = style.colours({style.family(row) for row in kind.coloured(topic)})
    return f"{kind.caption} {colours[0].upper()}{colours[1:]}."


def section_tables(section: pd.DataFrame) -> Iterator[Table]:
    """Yields tables of what a call consists of: counts, and its heaviest kernels and operators.

    Rows that ended ok are included even if their mode was not in effect, because their counts
    describe what ran.
    """
    rows = as_rows(section)
    ok = [row for row in rows if row["status"] == Status.OK]
    if wanted(COUNTED, ok):
        yield table_of("Operators, generated code and allocations", ok, naming(rows), COUNTED)
    for kind in profile.KINDS:
        if lines := tuple(profile.heaviest(ok, kind)):
            yield Table(kind.title, kind.titles, profile.NAMED, lines)


def series_table(series: SizeSeries) -> Table:
    """Returns a table with a line per mode of `series`.

    It says at which sizes the mode was measured, and at which of them overhead, not work,
    determines the time of a call. If the size counts operators, it also has the overhead per
    operator.
    """
    slope = (f"{series.overhead.name} per {series.unit} [95 %]",) if series.is_chain else ()
    titles = ("mode", f"{series.size} measured", *slope, "bound by overhead")
    return Table("Bound by overhead", titles, len(titles), tuple(_bound_lines(series)))


def _bound_lines(series: SizeSeries) -> Iterator[tuple[str, ...]]:
    """Yields the lines of `series_table`; for a chain of operators, the cheapest mode first."""
    known = [line for line, _ in by_slope(series)] if series.is_chain else []
    for line in (*known, *(line for line in series.lines if line not in known)):
        slope = (numbers.duration_interval(line.slope),) if series.is_chain else ()
        sizes = f"{min(line.sizes)} to {max(line.sizes)}, {len(line.sizes)} rows"
        yield line.name, sizes, *slope, _bound(line, series.overhead, series.size)


def _bound(line: Line, overhead: Overhead, size: str) -> str:
    """Says at which sizes a mode is bound by overhead: `up to about ops 49 (...)`."""
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
    return _THROUGHOUT.get(side or "") or f"unknown, as {' or '.join(needed)} time is missing"


_THROUGHOUT = {
    "overhead": "at every size",
    "work": "at no size",
    "undecided": "undecided by the intervals",
}
