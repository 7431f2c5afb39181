"""The overhead of each additional operator, by mode."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.figure import Figure

from modescope.analysis.derive.series import Line, Series, by_slope
from modescope.analysis.figures.draw.dots import Dot, dots
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import numbers, phrases
from modescope.analysis.format.tables import Table
from modescope.bench.stats.estimates import Estimate


def draw(series: Series) -> Figure | None:
    """Slopes of the overhead with their intervals, the flattest first.

    None if the size does not count operators, or no slope is known.
    """
    points = [Dot(line.name, line.rows[0], slope) for line, slope in by_slope(series)]
    if not points or not series.is_chain:
        return None
    name = series.overhead.name
    at = " at full pace" if points[0].row["latency_at_full_pace_s"] is not None else ""
    foot = (
        f"slope of {name}{at} over all sizes with its 95 % interval; left is cheaper\n"
        f"{phrases.work_at(points[0].row, series.others)}"
    )
    return dots(points, f"{name.capitalize()} per {series.unit}", foot)


def caption(series: Series) -> str:
    """The overhead of an operator in each mode, cheapest first; ≈ marks overlaps."""
    known = by_slope(series)
    text = _slope(*known[0])
    for (_, cheaper), (line, dearer) in pairwise(known):
        text += f"{',' if _is_dearer(cheaper, dearer) else ' ≈'} {_slope(line, dearer)}"
    overlaps = " (≈: the intervals overlap)" if "≈" in text else ""
    name = series.overhead.name.capitalize()
    return f"{name} per {series.unit}, cheapest first: {text}{overlaps}."


def _is_dearer(lesser: Estimate, greater: Estimate) -> bool:
    return lesser.high is not None and greater.low is not None and lesser.high < greater.low


def _slope(line: Line, slope: Estimate) -> str:
    return f"{line.name} {numbers.estimate(slope)}"


def table(series: Series) -> Table:
    """The overhead of an operator in each mode, cheapest first."""
    lines = tuple((line.name, numbers.estimate(slope)) for line, slope in by_slope(series))
    title = f"{series.overhead.name} per {series.unit}"
    return Table(title.capitalize(), ("mode", f"{title} [95 %]"), 1, lines)


FIGURE = FigureKind(
    "slope", "Overhead per operator", "overhead of each additional operator, a row per mode",
    draw, caption, table,
)  # fmt: skip
