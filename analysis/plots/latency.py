"""How long a call takes in each mode."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis import style, words
from analysis.plots.canvas import MOST_ROWS, and_more
from analysis.plots.dots import Dot, dots
from analysis.rows import trusted
from bench.stats import Estimate


def latency(section: pd.DataFrame) -> Figure | None:
    """Latencies of a SECTION with their intervals; None without a trusted row."""
    rows = sorted(words.as_rows(trusted(section)), key=style.order)
    if not rows:
        return None
    points = [
        Dot(words.variant(row), row,
            Estimate(row["latency_s"], row["latency_ci_low_s"], row["latency_ci_high_s"]))
        for row in rows[:MOST_ROWS]
    ]  # fmt: skip
    foot = and_more("latency: left is faster", len(rows) - len(points))
    return dots(points, f"{words.work(rows[0])}: latency", foot)
