"""Templates -> pages; everything that is printed is escaped for its kind of page."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from analysis.page import glyphs

PAGES = ("index.html", "report.md")


def render(page: str, context: dict[str, Any]) -> str:
    """The text of one of PAGES."""
    look = {"symbols": glyphs.symbols(), "colours": glyphs.colours()}
    return _ENGINES[page].get_template(f"{page}.j2").render(context | look)


def _engine(**options: Any) -> jinja2.Environment:
    engine = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"), undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **options,
    )  # fmt: skip
    engine.filters["path"] = lambda text: quote(str(text))
    return engine


def _markdown(value: Any) -> Any:
    """Text that Markdown shows as it is; what is Markup already needs nothing."""
    if isinstance(value, Markup):
        return value
    line = " ".join(str(value).split())
    return _SPECIAL.sub(r"\\\g<0>", html.escape(line, quote=False))


# What Markdown would take for a mark within a line; an underscore within a word is none.
_SPECIAL = re.compile(r"[|`*\\]|~(?=~)|(?<=~)~|_(?=_)|(?<=_)_|\](?=[(\[:])")


def _code(text: Any) -> Markup:
    """One line of an indented code block, which Markdown shows as it is."""
    return Markup(" ".join(str(text).split()))


def _engines() -> dict[str, jinja2.Environment]:
    markdown = _engine(autoescape=False, finalize=_markdown)
    markdown.filters["code"] = _code
    markdown.filters["made"] = Markup  # by a macro, whose values are escaped already
    return {"index.html": _engine(autoescape=True), "report.md": markdown}


_ENGINES = _engines()
