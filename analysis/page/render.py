"""Templates -> pages; everything that is printed is escaped for its kind of page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from analysis.page import glyphs
from bench import markup

PAGES = ("index.html", "report.md")


def render(page: str, context: dict[str, Any]) -> str:
    """The text of one of PAGES."""
    look = {"symbols": glyphs.symbols(), "colours": glyphs.colours()}
    return _ENGINES[page].get_template(f"{page}.j2").render(context | look)


def _code(text: Any) -> Markup:
    """One line of an indented code block, which Markdown shows as it is."""
    return Markup(" ".join(str(text).split()))


def _engines() -> dict[str, jinja2.Environment]:
    markdown = markup.markdown_engine("analysis")
    markdown.filters["code"] = _code
    markdown.filters["made"] = Markup  # by a macro, whose values are escaped already
    engines = {"index.html": markup.html_engine("analysis"), "report.md": markdown}
    for each in engines.values():
        each.filters["path"] = lambda text: quote(str(text))
    return engines


_ENGINES = _engines()
