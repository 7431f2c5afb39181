"""Fills the templates of a report, with every value escaped for HTML or for Markdown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path

from modescope.analysis.format import numbers, phrases, skips, style
from modescope.analysis.report.listing import sort_key
from modescope.analysis.rows import predicates
from modescope.analysis.rows.type import Row
from modescope.bench.stats.estimates import ALPHA, MARGIN
from modescope.bench.text import html_engine, markdown_engine

PAGES = ("index.html", "report.md")

_INSIDE = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?)?B\b|[kMGTP]?FLOP\b|[nµm]?s\b|%)|(?<=\d,) (?=[\d.]+\])"
)
"""Matches the spaces within a quantity: `450 KiB`, `73 GFLOP/s`, `80 %`, `[1.018, 1.024]`."""

_CODES = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C"}


@dataclass(frozen=True)
class Glyph:
    """How a page shows a mode.

    `symbol` is a key of `symbols()`, `colour` is a CSS class, and `character` is a similar
    character, for Markdown.
    """

    symbol: str
    colour: str
    character: str


def glyph(row: Row) -> Glyph:
    """Returns the Glyph of a row's mode."""
    place = style.FAMILIES.index(style.family(row))
    marker = style.marker(row)
    return Glyph(_symbol(marker), f"family-{place}", style.CHARACTERS[marker])


def symbols() -> dict[str, str]:
    """A dict from the name of a symbol to its outline, an SVG path in a box from -1 to 1."""
    return {_symbol(marker): _outline(marker) for marker in style.CHARACTERS}


def colours() -> dict[str, str]:
    """A dict from the CSS class of a family of modes to its colour."""
    return {f"family-{place}": family.colour for place, family in enumerate(style.FAMILIES)}


def _symbol(marker: style.Marker) -> str:
    return f"marker-{list(style.CHARACTERS).index(marker)}"


def _outline(marker: style.Marker) -> str:
    shape = MarkerStyle(marker)
    path = shape.get_path().transformed(shape.get_transform())
    reach = float(np.abs(path.vertices).max())
    scale = (1 / reach, -1 / reach)  # the y axis of SVG points down
    steps = []
    for points, code in path.iter_segments(curves=True, simplify=False):
        scaled = np.round(points.reshape(-1, 2) * scale, 3) + 0.0  # without negative zeros
        ends = " ".join(f"{value:g}" for value in scaled.ravel())
        steps.append("Z" if code == Path.CLOSEPOLY else f"{_CODES[code]}{ends}")
    return "".join(steps)


def render(page: str, context: dict[str, Any]) -> str:
    """Fills the template of `page`, which is one of PAGES, with the variables in `context`."""
    engine = _markdown() if page == "report.md" else _html()
    engine.globals |= {
        "colours": colours(),
        "colour_names": style.colours(),
        "confidence": numbers.whole_percent(1 - ALPHA),
        "glyph_of": glyph,
        "is_counted": lambda row: predicates.why_left_out(row) is None,
        "margin": numbers.whole_percent(MARGIN),
        "modes_of": lambda rows: list(dict.fromkeys(map(phrases.mode, rows))),
        "reason_of": predicates.reason,
        "skip_lines": skips.lines,
        "skipped_by_reason": skips.by_reason,
        "sort_key": sort_key,
        "symbols": symbols(),
        "unknown": numbers.UNKNOWN,
        "work_of": phrases.work,
    }
    return engine.get_template(f"{page}.j2").render(context)


def _markdown() -> jinja2.Environment:
    engine = markdown_engine("modescope.analysis.report")
    engine.filters["code"] = lambda text: Markup(" ".join(str(text).split()))  # on one line
    return engine


def _html() -> jinja2.Environment:
    """The engine for HTML; its filter `unbroken` keeps quantities such as `450 KiB` on one line."""
    engine = html_engine("modescope.analysis.report")
    engine.filters["unbroken"] = lambda text: _INSIDE.sub("\u00a0", text)
    return engine
