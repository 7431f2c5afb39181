"""What each mode pays for one more operator."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis import words
from analysis.plots.dots import Dot, dots
from analysis.series import Series, by_slope


def slopes(chain: Series) -> Figure | None:
    """Slopes of the overhead with their intervals, the flattest first; None where none is known."""
    points = [Dot(line.name, line.rows[0], slope) for line, slope in by_slope(chain)]
    if not points:
        return None
    name = chain.overhead.name
    foot = (
        f"slope of {name} over all sizes, with its 95 % interval; left is cheaper\n"
        f"{words.work_at(points[0].row, chain.others)}"
    )
    return dots(points, f"{name.capitalize()} per {chain.unit}", foot)
