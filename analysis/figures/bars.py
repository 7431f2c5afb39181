"""Stacked bars, one per row: the parts of a call, of a step, or of its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from modescope.analysis.figures import theme
from modescope.analysis.figures.theme import Panel
from modescope.analysis.format import numbers, phrases, style
from modescope.analysis.format.phrases import Row

Parts = Mapping[str, float]  # of a bar: name in the table of looks -> seconds or bytes


@dataclass(frozen=True)
class Look:
    """The look of a part; `fill` None is an outline. Hatches distinguish parts without colour."""

    name: str
    fill: str | None
    hatch: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """In matplotlib's terms."""
        edge = style.INK if self.fill else style.FADED
        return {"facecolor": self.fill or "none", "edgecolor": edge, "hatch": self.hatch,
                "linewidth": 0.5}  # fmt: skip


def stacked(
    panels: Sequence[Panel],
    parts: Sequence[Sequence[Parts]],
    looks: Mapping[str, Look],
    about: Sequence[Row],
    size: bool = False,
    further: Sequence[Any] = (),
) -> tuple[Figure, list[tuple[Axes, float]]]:
    """A figure with a bar per row, and of each panel its axes and the unit that is 1 on it.

    `about`: all rows, of which the panels may have only some.
    `size`: of bytes on one scale; else of seconds, a scale per panel. `further`: handles that the
    legend has beside those of the parts in use.
    """
    used = {name for panel in parts for bar in panel for name, amount in bar.items() if amount}
    named = [look for name, look in looks.items() if name in used]
    handles = [Patch(label=look.name, **look.style) for look in named] + list(further)
    across = theme.legend_columns([handle.get_label() for handle in handles])
    figure, grid = theme.sheet(
        panels, phrases.work(about[0]), theme.beyond(len(about), panels),
        legend=-(-len(handles) // across), share=size,
    )  # fmt: skip
    figure.legend(handles=handles, loc="outside lower left", ncols=across, handlelength=1.6,
                  borderpad=0.1, columnspacing=1.4)  # fmt: skip
    longest = [max(sum(bar.values()) for bar in panel) for panel in parts]
    drawn = []
    if size:
        longest = [max(longest)] * len(panels)
    for (axes,), panel, length in zip(grid, parts, longest, strict=True):
        scale, unit = (numbers.size_unit if size else numbers.time_unit)(length)
        _bars(axes, panel, looks, scale)
        theme.linear_ticks(axes, length / scale, unit if not size or axes is grid[-1][0] else "")
        drawn.append((axes, scale))
    return figure, drawn


def _bars(axes: Axes, bars: Sequence[Parts], looks: Mapping[str, Look], scale: float) -> None:
    frame = pd.DataFrame(
        [(place, name, bars[place].get(name, 0.0) / scale)
         for place in range(len(bars)) for name in looks],
        columns=["place", "part", "amount"],
    )  # fmt: skip
    names = list(looks)
    sns.histplot(
        frame, y="place", weights="amount", hue="part", hue_order=names[::-1], multiple="stack",
        discrete=True, shrink=0.72, palette=dict.fromkeys(names, style.FADED), alpha=1,
        legend=False, ax=axes,
    )  # fmt: skip
    for name, container in zip(names, axes.containers, strict=True):
        for bar in container:
            bar.set(**looks[name].style)
            if not bar.get_width():
                bar.remove()
    axes.set(ylabel="", ylim=(len(bars) - 0.5, -0.5))
