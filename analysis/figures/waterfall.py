"""The time that each further mode saves per call, from eager down to the roofline floor."""

from __future__ import annotations

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modescope.analysis.derive.waterfall import Stage, Waterfall, waterfalls
from modescope.analysis.figures.draw.bars import Look, as_drawn, length_axis
from modescope.analysis.figures.draw.canvas import Entry, Panel, stacked
from modescope.analysis.figures.figure import FigureKind
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.tables import Table
from modescope.bench.stats.intervals import ends

_FOOT = (
    "bar: time that a mode saves (hatched: adds); empty and ≈: undecided by the intervals; line: "
    "95 % interval"
)
_REST = Look("above the floor", None)
_FLOOR = Look("floor", style.FADED)


def draw(section: pd.DataFrame) -> Figure | None:
    """A panel for each waterfall of a SECTION; None where there is none."""
    falls = waterfalls(section)
    if not falls:
        return None
    title = "From eager to the floor"
    panels = [
        Panel(f"{title}, {phrases.contest(fall.steps[0].row)}", _entries(fall)) for fall in falls
    ]
    foot = f"{_FOOT}\n{phrases.work(falls[0].steps[0].row)}"
    with matplotlib.rc_context(style.RC):
        stack = stacked(panels, foot)
        for axes, fall in zip(stack.axes, falls, strict=True):
            _draw(axes, fall, stack.thick)
    return stack.figure


def _entries(fall: Waterfall) -> list[Entry]:
    steps = [Entry(phrases.mode(step.row), _numbers(step), step.row) for step in fall.steps]
    if fall.floor_s is None:
        return steps
    return [*steps, Entry("floor", f"{numbers.duration(fall.floor_s)}, {fall.floor_bound}")]


def _draw(axes: Axes, fall: Waterfall, thick: float) -> None:
    before_s = 0.0
    for place, step in enumerate(fall.steps):
        level_s = step.level.value
        axes.barh(place, level_s - before_s, left=before_s, height=thick, **as_drawn(_look(step)))
        axes.plot(ends(step.level), (place, place), color=style.INK, linewidth=1.2)
        before_s = level_s
    if fall.floor_s is not None:
        _floor(axes, len(fall.steps), before_s, fall.floor_s, thick)
    length_axis(axes, numbers.tick)


def _look(step: Stage) -> Look:
    colour = style.family(step.row).colour
    if step.off is None or step.change == "less":
        return Look("", colour)
    return Look("", colour, "////") if step.change == "more" else Look("", None)


def _floor(axes: Axes, place: int, level_s: float, floor_s: float, thick: float) -> None:
    axes.barh(place, floor_s, height=thick, **as_drawn(_FLOOR))
    axes.barh(place, level_s - floor_s, left=floor_s, height=thick, **as_drawn(_REST))


def _numbers(step: Stage) -> str:
    """The time of the call, and in brackets the change from the step before."""
    level = numbers.duration(step.level.value)
    if step.off is None:
        return level
    sign = {"less": "−", "more": "+", "open": "≈"}[step.change]
    return f"{level}  ({sign}{numbers.duration(abs(step.off.value))})"


def caption(section: pd.DataFrame) -> str | None:
    """The time that each step saves and the distance to the floor; None without a waterfall."""
    falls = waterfalls(section)
    return " ".join(_sentence(fall, len(falls) > 1) for fall in falls) or None


def _sentence(fall: Waterfall, several: bool) -> str:
    first, *steps = fall.steps
    named = phrases.variant(first.row) if several else phrases.mode(first.row)
    changes = [_change(step) for step in steps if step.change != "open"]
    unsure = [phrases.mode(step.row) for step in steps if step.change == "open"]
    clauses = [", ".join(changes)] if changes else []
    if unsure:
        clauses.append(f"undecided by the intervals: {phrases.listed(unsure)}")
    start = numbers.duration(first.level.value)
    return f"From {named} ({start}): {'; '.join(clauses)}. {_left(fall)}"


def _change(step: Stage) -> str:
    assert step.off is not None
    verb = "saves" if step.change == "less" else "adds"
    return f"{phrases.mode(step.row)} {verb} {numbers.duration(abs(step.off.value))}"


def _left(fall: Waterfall) -> str:
    last = fall.steps[-1]
    if fall.beaten:
        return "No floor is drawn: the work was faster than the measured ceilings allow."
    if fall.floor_s is None:
        why = last.row["work_note"] or "work or ceilings were not measured"
        return f"The distance to the floor is unknown: {why}."
    times = numbers.times(last.level.value / fall.floor_s)
    what = {"compute": "arithmetic", "memory": "bandwidth"}[str(fall.floor_bound)]
    blind = "" if last.row["flops"] else " (pointwise arithmetic is not counted)"
    floor = numbers.duration(fall.floor_s)
    return f"The last step takes {times} the floor of {floor}, set by {what}{blind}."


def table(section: pd.DataFrame) -> Table:
    """Each step with its time and what it saves, and the floor."""
    lines = []
    for fall in waterfalls(section):
        for step in fall.steps:
            level, off = numbers.estimate(step.level), numbers.estimate(step.off)
            lines.append((phrases.mode(step.row), step.row["dtype"], level, off))
        if fall.floor_s is not None:
            floor = f"{numbers.duration(fall.floor_s)} ({fall.floor_bound})"
            lines.append(("floor", fall.steps[0].row["dtype"], floor, numbers.UNKNOWN))
    titles = ("step", "dtype", "time of a call [95 %]", "saved by this step [95 %]")
    return Table("Steps", titles, 2, tuple(lines))


FIGURE = FigureKind(
    "waterfall", "From eager to the floor", "time that each mode saves per call, and the floor",
    draw, caption, table,
)  # fmt: skip
