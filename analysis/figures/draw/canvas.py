"""Shared by all figures: stacked panels of named rows, and reproducible SVG.

The name and the numbers of a row stand on a line above its drawing, so that a figure is no wider
than a phone.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.transforms import blended_transform_factory

from modescope.analysis.format import style
from modescope.analysis.format.phrases import Row

MOST_ROWS = 60  # per figure: about three pages
WIDTH = 4.4  # inches: 422 pixels, which a phone shows at 90 %
BAR = 0.15  # inches: height of the drawing in a row
SIDE = 0.06  # inches, left and right of text
_INSET = 0.24  # inches, left and right of a panel: room for half of an outermost tick label
_LINE, _GAP, _TICKS, _TITLE_GAP = 0.165, 0.09, 0.27, 0.12  # inches
TITLE_SIZE, SMALL = 9.5, 8  # points; names have the size in style.RC


@dataclass(frozen=True)
class Entry:
    """A row of a panel: its name, the numbers at its right end, and the mode that it shows."""

    name: str
    numbers: str
    row: Row | None = None


@dataclass(frozen=True)
class Panel:
    """Rows under a title."""

    title: str
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Stack:
    """A figure with an axes per panel, in which row n of the panel is drawn at y = n.

    `thick`: height of the drawing, in rows.
    """

    figure: Figure
    axes: Sequence[Axes]
    thick: float


def stacked(panels: Sequence[Panel], foot: str, bar: float = BAR, room: float = 0) -> Stack:
    """A figure with these panels, the first row of each on top, and `foot` in small print.

    `bar`: height of the drawing in a row; `room`: free space above the foot. Both in inches.
    """
    lines = 2 if any(_crowded(entry) for panel in panels for entry in panel.entries) else 1
    row = lines * _LINE + bar + _GAP
    titles = [wrapped(panel.title, TITLE_SIZE, bold=True) for panel in panels]
    heights = [
        len(title) * _LINE + _TITLE_GAP + row * len(panel.entries) + _TICKS
        for title, panel in zip(titles, panels, strict=True)
    ]
    feet = wrapped(foot, SMALL)
    height = sum(heights) + room + len(feet) * _LINE * 0.9 + 0.12
    figure = Figure(figsize=(WIDTH, height))
    every, top = [], height
    for panel, title, needed in zip(panels, titles, heights, strict=True):
        _write(figure, top - 0.04, title, TITLE_SIZE, weight="bold")
        inner = row * len(panel.entries)
        box = (_INSET, top - needed + _TICKS, WIDTH - 2 * _INSET, inner)
        every.append(_axes(figure, box, panel.entries, lines, bar))
        top -= needed
    _write(figure, len(feet) * _LINE * 0.9 + 0.06, feet, SMALL)
    return Stack(figure, every, bar / row)


def _axes(
    figure: Figure, box: tuple[float, ...], entries: Sequence[Entry], lines: int, bar: float
) -> Axes:
    """A panel with names and numbers, and a faint track behind each row's drawing."""
    height, row = figure.get_figheight(), box[3] / len(entries)
    left, bottom, wide, high = box
    axes = figure.add_axes((left / WIDTH, bottom / height, wide / WIDTH, high / height))
    above = (lines * _LINE + bar / 2) / row  # of a row, above the middle of the drawing
    axes.set_ylim(len(entries) - above, -above)
    axes.set_yticks([])
    axes.hlines(
        range(len(entries)), 0, 1, transform=axes.get_yaxis_transform(), color=style.FADED,
        alpha=0.13, linewidth=bar * 72, capstyle="butt", zorder=0,
    )  # fmt: skip
    for place, entry in enumerate(entries):
        _name(axes, place - above, _LINE / row, entry, lines)
    return axes


def _name(axes: Axes, top: float, line: float, entry: Entry, lines: int) -> None:
    """Writes the name on the left and the numbers on the right, on one or two `lines`."""
    figure = axes.figure
    across = blended_transform_factory(figure.transFigure, axes.transData)
    middle, left = top + line / 2, SIDE / WIDTH
    if entry.row is not None:
        axes.plot(left + 0.045 / WIDTH, middle, style.marker(entry.row), transform=across,
                  color=style.family(entry.row).colour, markersize=5, clip_on=False,
                  label="_glyph")  # fmt: skip
        left += _GLYPH / WIDTH
    name = _cut(entry.name, WIDTH * (0.97 - left) - SIDE)
    axes.text(left, middle, name, transform=across, va="center", label="name")
    last = middle + line * (lines - 1)
    axes.text(1 - SIDE / WIDTH, last, entry.numbers, transform=across, va="center", ha="right",
              size=SMALL, label="numbers")  # fmt: skip


_GLYPH = 0.14  # inches


def _crowded(entry: Entry) -> bool:
    wide = text_width(entry.name) + text_width(entry.numbers, SMALL)
    return wide + _GLYPH + 2 * SIDE + 0.12 > WIDTH


def _write(
    figure: Figure, top: float, lines: Sequence[str], size: float, weight: str = "normal"
) -> None:
    x, y = SIDE / WIDTH, top / figure.get_figheight()
    figure.text(x, y, "\n".join(lines), size=size, va="top", linespacing=1.25, weight=weight)


@cache
def text_width(text: str, size: float = style.RC["font.size"], bold: bool = False) -> float:
    """The width of a line in a figure, in inches; about the same in the font of a page."""
    weight = "bold" if bold else "normal"
    font = FontProperties(family=style.RC["font.sans-serif"], size=size, weight=weight)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def wrapped(text: str, size: float, bold: bool = False) -> list[str]:
    """`text` in lines that fit into a figure; existing line breaks stay."""
    lines: list[str] = []
    for paragraph in filter(None, text.split("\n")):
        start = len(lines)
        for word in (piece for long in paragraph.split() for piece in _pieces(long, size, bold)):
            longer = f"{lines[-1]} {word}" if len(lines) > start else word
            fits = len(lines) > start and text_width(longer, size, bold) <= WIDTH - 2 * SIDE
            lines = [*lines[:-1], longer] if fits else [*lines, word]
    return lines


def _pieces(word: str, size: float, bold: bool) -> list[str]:
    """A word, broken into pieces if it is wider than a figure."""
    count = math.ceil(text_width(word, size, bold) / (WIDTH - 2 * SIDE))
    if count < 2:
        return [word]
    most = len(word) // (count + 1) + 1  # letters are not equally wide
    return [word[start : start + most] for start in range(0, len(word), most)]


def _cut(text: str, room: float) -> str:
    """`text`, shortened to a width of `room` inches."""
    while text_width(text) > room:
        text = f"{text.removesuffix('…')[:-1]}…"
    return text


def and_more(foot: str, hidden: int) -> str:
    """The foot of a figure, with the number of rows that it does not show."""
    more = f"{hidden} more rows are in the table only" if hidden else ""
    return "; ".join(filter(None, (foot, more)))


def svg(figure: Figure, name: str) -> str:
    """The figure as SVG without a background, byte for byte the same each time.

    `name` makes its ids unique among the figures of a page.
    """
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    look = style.RC | {"svg.hashsalt": name}
    with matplotlib.rc_context(look), io.StringIO() as buffer:
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
        return buffer.getvalue()


def on_paper(text: str) -> str:
    """The SVG as a separate file, on white."""
    return re.sub(r"(<svg\b[^>]*>)", r'\1\n <rect width="100%" height="100%" fill="#ffffff"/>',
                  text, count=1)  # fmt: skip


def inline(text: str) -> str:
    """The SVG within a page: no prolog, no namespaces, the ink in the page's text colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # the same in every figure of a page
    text = text.replace(_FONT, "system-ui, sans-serif")
    return text.replace(style.INK, "currentColor")


_FONT = "'DejaVu Sans', sans-serif"
