"""Stacked bars: the parts of a whole side by side, one or more bars per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from modescope.analysis.figures.draw.canvas import (
    SMALL,
    WIDTH,
    Entry,
    Panel,
    Stack,
    stacked,
    text_width,
)
from modescope.analysis.format import style

Lane = list[tuple[str, float]]  # parts of a bar: name in the table of looks, length
SKIPPED = ""  # an invisible part, which moves the next one to the right
BESIDE = 0.27  # inches: height of a row with two bars
_LEGEND_LINE, _HANDLE = 0.15, 0.42  # inches; the handle with the space around a name


@dataclass(frozen=True)
class Look:
    """The look of a part of a bar; `fill` None is an outline.

    Hatches distinguish parts without colour. Dotted hatches are avoided: as circles they make an
    SVG of half a megabyte.
    """

    name: str
    fill: str | None
    hatch: str = ""


def bars(
    title: str,
    rows: Sequence[tuple[Entry, Sequence[Lane]]],
    looks: Mapping[str, Look],
    foot: str,
) -> tuple[Stack, Axes]:
    """A figure of stacked bars, one or more per row, with a legend of the parts in use."""
    used = {name for _, lanes in rows for lane in lanes for name, _ in lane}
    named = [look for name, look in looks.items() if name in used]
    across = _columns([look.name for look in named])
    room = -(-len(named) // across) * _LEGEND_LINE
    bar = {"bar": BESIDE} if max(len(lanes) for _, lanes in rows) > 1 else {}
    stack = stacked([Panel(title, [entry for entry, _ in rows])], foot, room=room, **bar)
    (axes,) = stack.axes
    for place, (_, lanes) in enumerate(rows):
        _draw(axes, place, lanes, looks, stack.thick)
    _legend(stack, named, across)
    return stack, axes


def _draw(
    axes: Axes, place: int, lanes: Sequence[Lane], looks: Mapping[str, Look], thick: float
) -> None:
    """The bars of row `place`, the first on top."""
    each = thick / len(lanes)
    for number, lane in enumerate(lanes):
        middle = place + (number - (len(lanes) - 1) / 2) * each
        start = 0.0
        for name, length in lane:
            if name != SKIPPED:
                axes.barh(middle, length, height=each * 0.92, left=start, **as_drawn(looks[name]))
            start += length


def as_drawn(look: Look) -> dict[str, Any]:
    """A look in matplotlib's terms."""
    return {
        "facecolor": look.fill or "none",
        "edgecolor": style.INK if look.fill else style.FADED,
        "hatch": look.hatch,
        "linewidth": 0.6,
    }


def length_axis(axes: Axes, label: Callable[[float], str], unit: float = 1.0) -> None:
    """An axis from 0 on, with ticks at round multiples of `unit`."""
    axes.set_xlim(0, None)
    high = axes.get_xlim()[1]
    steps = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(0, high / unit)
    axes.xaxis.set_major_locator(FixedLocator([n * unit for n in steps if 0 <= n * unit <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda length, _: label(length)))


def _columns(names: Sequence[str]) -> int:
    """The number of equal columns in which the names of a legend fit."""
    widest = max(text_width(name, SMALL) for name in names) + _HANDLE
    return max(1, min(len(names), int(WIDTH / widest)))


def _legend(stack: Stack, named: Sequence[Look], across: int) -> None:
    """The legend of parts, in the order of the table of looks, above the foot."""
    patches = [Patch(label=look.name, **as_drawn(look)) for look in named]
    high = stack.figure.get_figheight()
    top = stack.axes[-1].get_position().y0 * high - 0.27
    stack.figure.legend(
        handles=patches, loc="upper left", ncols=across, frameon=False, fontsize=SMALL,
        bbox_to_anchor=(0, top / high), borderaxespad=0, labelspacing=0.3, columnspacing=1.2,
        handlelength=1.6,
    )  # fmt: skip
