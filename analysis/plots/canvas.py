"""What figures share: panels of named rows beneath each other, and SVG that is always the same."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import style

MOST_ROWS = 60  # of one figure: about a page and a half
WIDTH = 9.2  # inches
LEFT, RIGHT = 2.3, 2.6  # left are names, right are numbers
_ROW, _TITLE, _TICKS, _FOOT = 0.27, 0.55, 0.3, 0.32


def stacked(
    panels: Sequence[tuple[str, Sequence[str]]], foot: str, row: float = _ROW, room: float = 0
) -> tuple[Figure, list[Axes]]:
    """A figure with a panel per (title, names of its rows), the first row on top.

    `row` is the height of a row and `room` what is kept free above the foot, in inches. Row n of a
    panel lies at y = n.
    """
    heights = [_TITLE + row * len(names) + _TICKS for _, names in panels]
    height = sum(heights) + _FOOT + room
    figure = Figure(figsize=(WIDTH, height))
    every, top = [], height
    for (title, names), needed in zip(panels, heights, strict=True):
        bottom, inner = top - needed + _TICKS, row * len(names)
        box = (LEFT / WIDTH, bottom / height, 1 - (LEFT + RIGHT) / WIDTH, inner / height)
        axes = figure.add_axes(box)
        axes.set_yticks(range(len(names)), list(names))
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        figure.text(0.01, (bottom + inner + 0.25) / height, title, weight="bold")
        every.append(axes)
        top -= needed
    figure.text(0.01, 0.1 / height, foot, size=8)
    return figure, every


def beside(axes: Axes, place: int, text: str) -> None:
    """Writes the numbers of row `place` to the right of the panel."""
    axes.text(1.03, place, text, transform=axes.get_yaxis_transform(), va="center")


def and_more(foot: str, hidden: int) -> str:
    """The foot of a figure, with how many rows it does not show."""
    return f"{foot}; {hidden} more rows are in the table only" if hidden else foot


def svg(figure: Figure, inline: bool) -> str:
    """The figure as SVG with the same bytes every time.

    `inline`: for a page that owns the colours: no prolog, no namespaces, ink is `currentColor`.
    Otherwise a file of its own, on white.
    """
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(style.RC), io.StringIO() as buffer:
        paper = "none" if inline else "white"
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor=paper)
        text = buffer.getvalue()
    if not inline:
        return text
    text = text[text.index("<svg") :]
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # several figures share a page, and ids are unique
    return text.replace(style.INK, "currentColor")
