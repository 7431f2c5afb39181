"""What each further mode takes off a call, from eager down to the floor."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import numbers, style, words
from analysis.plots.bars import as_drawn, axis
from analysis.plots.canvas import Entry, Panel, stacked
from analysis.style import Look
from analysis.waterfall import Step, Waterfall, waterfalls
from bench.stats import Estimate

_FOOT = (
    "bar: what a mode takes off (hatched: adds); empty and ≈: the intervals leave open what it "
    "does; line: 95 % interval"
)
_REST = Look("above the floor", None)
_FLOOR = Look("floor", style.FADED)


def waterfall(section: pd.DataFrame) -> Figure | None:
    """A panel for each waterfall of a SECTION; None where there is none."""
    found = waterfalls(section)
    if not found:
        return None
    panels = [Panel(_title(each), _entries(each)) for each in found]
    foot = f"{_FOOT}\n{words.work(found[0].steps[0].row)}"
    with matplotlib.rc_context(style.RC):
        stack = stacked(panels, foot)
        for axes, each in zip(stack.axes, found, strict=True):
            _draw(axes, each, stack.thick)
    return stack.figure


def _title(found: Waterfall) -> str:
    return f"From eager to the floor, {words.contest(found.steps[0].row)}"


def _entries(found: Waterfall) -> list[Entry]:
    steps = [Entry(words.mode(step.row), _numbers(step), step.row) for step in found.steps]
    if found.floor_s is None:
        return steps
    return [*steps, Entry("floor", f"{numbers.duration(found.floor_s)}, {found.floor_bound}")]


def _draw(axes: Axes, found: Waterfall, thick: float) -> None:
    before_s = 0.0
    for place, step in enumerate(found.steps):
        level_s = step.level.value
        axes.barh(place, level_s - before_s, left=before_s, height=thick, **as_drawn(_look(step)))
        axes.plot(_ends(step.level), (place, place), color=style.INK, linewidth=1.2)
        before_s = level_s
    if found.floor_s is not None:
        _floor(axes, len(found.steps), before_s, found.floor_s, thick)
    axis(axes, numbers.tick)


def _look(step: Step) -> Look:
    colour = style.family(step.row).colour
    if step.off is None or step.told == "less":
        return Look("", colour)
    return Look("", colour, "////") if step.told == "more" else Look("", None)


def _floor(axes: Axes, place: int, level_s: float, floor_s: float, thick: float) -> None:
    axes.barh(place, floor_s, height=thick, **as_drawn(_FLOOR))
    axes.barh(place, level_s - floor_s, left=floor_s, height=thick, **as_drawn(_REST))


def _ends(level: Estimate) -> tuple[float, float]:
    low, high = level.low, level.high
    return (level.value if low is None else low), (level.value if high is None else high)


def _numbers(step: Step) -> str:
    """The level, and what was taken off in brackets."""
    level = numbers.duration(step.level.value)
    if step.off is None:
        return level
    sign = {"less": "−", "more": "+", "open": "≈"}[step.told]
    return f"{level}  ({sign}{numbers.duration(abs(step.off.value))})"
