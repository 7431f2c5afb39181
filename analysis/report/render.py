"""Fills the templates; every value is escaped for HTML or for Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from numpy.typing import NDArray

from modescope.analysis.format import style
from modescope.analysis.format.phrases import Row
from modescope.bench.text import markup

PAGES = ("index.html", "report.md")

_INSIDE = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?)?B\b|[kMGTP]?FLOP\b|[nµm]?s\b|%)|(?<=\d,) (?=[\d.]+\])"
)
"""The spaces within a quantity: `450 KiB`, `73 GFLOP/s`, `80 %`, `[1.018, 1.024]`."""


def render(page: str, context: dict[str, Any]) -> str:
    """The text of one of PAGES."""
    look = {"symbols": symbols(), "colours": colours()}
    return _ENGINES[page].get_template(f"{page}.j2").render(context | look)


def _code(text: Any) -> Markup:
    """One line of an indented code block, which Markdown shows unchanged."""
    return Markup(" ".join(str(text).split()))


def _fenced(text: str) -> Markup:
    """A block of Python."""
    return Markup(f"```python\n{text}\n```\n")


def _unbroken(text: str) -> str:
    """`text` with quantities that no line break divides."""
    return _INSIDE.sub("\u00a0", text)


def _engines() -> dict[str, jinja2.Environment]:
    markdown = markup.markdown_engine("modescope.analysis.report")
    markdown.filters |= {"code": _code, "fenced": _fenced}
    html = markup.html_engine("modescope.analysis.report")
    html.filters["unbroken"] = _unbroken
    engines = {"index.html": html, "report.md": markdown}
    for each in engines.values():
        each.filters["path"] = lambda text: quote(str(text))
    return engines


_ENGINES = _engines()


_CODES = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@dataclass(frozen=True)
class Glyph:
    """A symbol of the page, its CSS class for the colour, and a similar character."""

    symbol: str
    colour: str
    character: str


def glyph(row: Row) -> Glyph:
    """The glyph of a row's mode."""
    place = style.FAMILIES.index(style.family(row))
    marker = style.marker(row)
    return Glyph(_symbol(marker), f"family-{place}", style.CHARACTERS[marker])


def symbols() -> dict[str, str]:
    """Name of each symbol -> its outline as an SVG path, in a box from -1 to 1."""
    return {_symbol(marker): _outline(marker) for marker in style.CHARACTERS}


def colours() -> dict[str, str]:
    """CSS class -> colour."""
    return {f"family-{place}": family.colour for place, family in enumerate(style.FAMILIES)}


def _symbol(marker: str) -> str:
    return f"marker-{list(style.CHARACTERS).index(marker)}"


def _outline(marker: str) -> str:
    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    reach = float(np.abs(path.vertices).max())
    scale = (1 / reach, -1 / reach)  # the y axis of SVG points down
    steps = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        ends = " ".join(f"{value:g}" for value in _rounded(points, scale))
        steps.append("Z" if code == Path.CLOSEPOLY else f"{_CODES[code]}{ends}")
    return "".join(steps)


def _rounded(points: NDArray[np.float64], scale: tuple[float, float]) -> list[float]:
    """The x and y of each point in one list, without negative zeros."""
    flat: list[float] = (np.round(points.reshape(-1, 2) * scale, 3) + 0.0).ravel().tolist()
    return flat
