"""Stacked bars: parts of a whole beside each other, one or more bars to a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from analysis import style
from analysis.style import Look

Lane = list[tuple[str, float]]  # parts of a bar: name in the table of looks, length
SKIPPED = ""  # a part that is left free, so that the next one starts further on
BESIDE: dict[str, float] = {"row": 0.4}  # inches: of a row with room for two bars
LEGEND = 0.3  # inches above the foot
_THICK = 0.62  # of a row, in rows


def draw(axes: Axes, place: int, lanes: Sequence[Lane], looks: Mapping[str, Look]) -> None:
    """The bars of row `place`, the first on top."""
    thick = _THICK / len(lanes)
    for number, lane in enumerate(lanes):
        middle = place + (number - (len(lanes) - 1) / 2) * thick
        start = 0.0
        for name, length in lane:
            if name != SKIPPED:
                axes.barh(middle, length, height=thick * 0.92, left=start, **as_drawn(looks[name]))
            start += length


def as_drawn(look: Look) -> dict[str, Any]:
    """A look in matplotlib's terms."""
    return {
        "facecolor": look.fill or "none",
        "edgecolor": style.INK if look.fill else style.FADED,
        "hatch": look.hatch,
        "linewidth": 0.6,
    }


def axis(axes: Axes, label: Callable[[float], str], unit: float = 1.0) -> None:
    """Lengths from 0 on, with round numbers of `unit`."""
    axes.set_xlim(0, None)
    high = axes.get_xlim()[1]
    steps = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, high / unit)
    axes.xaxis.set_major_locator(FixedLocator([n * unit for n in steps if 0 <= n * unit <= high]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda length, _: label(length)))


def legend(figure: Figure, used: Collection[str], looks: Mapping[str, Look]) -> None:
    """What the parts are, in the order of the table of looks, in the room above the foot.

    On the left, which is what a narrow screen shows first.
    """
    named = [look for name, look in looks.items() if name in used]
    patches = [Patch(label=look.name, **as_drawn(look)) for look in named]
    figure.legend(handles=patches, loc="lower left", ncols=len(named), frameon=False, fontsize=8,
                  bbox_to_anchor=(0, 0.22 / figure.get_figheight()))  # fmt: skip
