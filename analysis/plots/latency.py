"""How long a call takes in each mode."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis import style, words
from analysis.plots.canvas import MOST_ROWS, and_more
from analysis.plots.dots import Dot, dots
from analysis.rows import trusted
from analysis.words import Row
from bench.stats import Estimate

_FOOT = "left is faster; marker: median with its interval; upright tick: 95 % of calls are faster"


def latency(section: pd.DataFrame) -> Figure | None:
    """Latencies of a SECTION with their intervals and tails; None without a trusted row."""
    rows = sorted(words.as_rows(trusted(section)), key=style.order)
    if not rows:
        return None
    points = [_dot(row) for row in rows[:MOST_ROWS]]
    foot = and_more(_FOOT, len(rows) - len(points))
    return dots(points, "Latency of a call", f"{foot}\n{words.work(rows[0])}")


def _dot(row: Row) -> Dot:
    latency_s = Estimate(row["latency_s"], row["latency_ci_low_s"], row["latency_ci_high_s"])
    return Dot(words.variant(row), row, latency_s, row["latency_p95_s"])
