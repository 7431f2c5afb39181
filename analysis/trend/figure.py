"""Series with the levels before and after their steps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import SMALL, WIDTH
from modescope.analysis.format import style
from modescope.analysis.trend.series import Step

MOST = 20  # series
_HEIGHT, _FOOT = 1.5, 0.9  # inches


def draw(steps: Sequence[Step], names: Sequence[str]) -> Figure:
    """A panel per series; `names`: those of all sets. Steps that are real have filled markers."""
    with theme.look():
        height = _HEIGHT * len(steps) + _FOOT
        figure = Figure(figsize=(WIDTH, height))
        for place, step in enumerate(steps):
            bottom = height - _HEIGHT * (place + 1) + 0.3
            axes = figure.add_axes((0.16, bottom / height, 0.8, (_HEIGHT - 0.75) / height))
            _panel(axes, step, len(names))
            title = f"{step.series.pair.name}: {step.series.pair.work}"
            axes.set_title(textwrap.fill(title, 90), size=SMALL)
            axes.set_xticks(range(len(names)), [""] * len(names))
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right", size=SMALL)
    return figure


def _panel(axes: Axes, step: Step, sets: int) -> None:
    values = (np.exp(np.array(step.series.values) - step.series.values[0]) - 1) * 100
    places = np.array(step.series.places)
    colour = style.family(step.series.pair.row).colour
    for part in (slice(None, step.before), slice(step.before, None)) if step.is_real else ():
        level = values[part].mean()
        axes.plot([places[part][0] - 0.3, places[part][-1] + 0.3], [level, level],
                  color=style.FADED, linewidth=2, alpha=0.6)  # fmt: skip
    axes.plot(places, values, style.marker(step.series.pair.row), color=colour, markersize=5,
              markerfacecolor=colour if step.is_real else "none")  # fmt: skip
    axes.set_xlim(-0.5, sets - 0.5)
    low, high = min(values.min(), -1.0), max(values.max(), 1.0)
    axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:+g} %" if value else "0")
    )
