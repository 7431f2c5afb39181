"""Escapes text for Markdown, and loads templates whose values are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

_SPECIAL = re.compile(r"[|`*\\]|~(?=~)|(?<=~)~|_(?=_)|(?<=_)_|\](?=[(\[])|^\[")
"""Characters that have a meaning in Markdown within a line; an underscore in a word has none."""

_SPACES = re.compile(r"\s+")
_CODE = re.compile(r"(`[^`]*`)")


def escape(text: str) -> str:
    """`text` on one line, escaped so that Markdown shows it unchanged."""
    return _escape_marks(_line(text))


def prose(text: str) -> str:
    """As `escape`, but what is in backticks stays code; in code only `|` is escaped, for tables."""
    parts = _CODE.split(_line(text))
    return "".join(
        part.replace("|", r"\|") if i % 2 else _escape_marks(part) for i, part in enumerate(parts)
    )


def html_engine(*packages: str) -> jinja2.Environment:
    """Jinja's environment for HTML templates, which are searched in `packages` in this order."""
    return _engine(packages, autoescape=True)


def markdown_engine(package: str) -> jinja2.Environment:
    """Jinja's environment for the package's Markdown templates.

    It applies `escape` to every value that is not Markup.
    """
    return _engine(
        [package],
        autoescape=False,
        finalize=lambda value: value if isinstance(value, Markup) else escape(str(value)),
    )


def _engine(packages: Sequence[str], **options: Any) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each) for each in packages]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **options,
    )  # fmt: skip


def _escape_marks(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", html.escape(text, quote=False))


def _line(text: str) -> str:
    """`text` on one line. A space at either end stays, as it may separate `text` from others."""
    return _SPACES.sub(" ", text)
