"""Fills the templates; every value is escaped for HTML or for Markdown."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from modescope.analysis.report import glyphs
from modescope.bench.text import markup

PAGES = ("index.html", "report.md")

_INSIDE = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i?)?B\b|[kMGTP]?FLOP\b|[nµm]?s\b|%)|(?<=\d,) (?=[\d.]+\])"
)
"""The spaces within a quantity: `450 KiB`, `73 GFLOP/s`, `80 %`, `[1.018, 1.024]`."""


def render(page: str, context: dict[str, Any]) -> str:
    """The text of one of PAGES."""
    look = {"symbols": glyphs.symbols(), "colours": glyphs.colours()}
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
