"""Pages from templates: printed values are escaped for HTML or for Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

_SPECIAL = re.compile(r"[|`*\\]|~(?=~)|(?<=~)~|_(?=_)|(?<=_)_|\](?=[(\[])|^\[")
"""Characters with a meaning in Markdown within a line; an underscore within a word has none."""

_SPACES = re.compile(r"\s+")
_CODE = re.compile(r"(`[^`]*`)")


def escape(text: str) -> str:
    """Text that Markdown shows unchanged, on one line."""
    return _escape_marks(_line(text))


def prose(text: str) -> str:
    """The same, but text in backticks is code, in which only `|` is escaped, for tables."""
    parts = _CODE.split(_line(text))
    return "".join(
        part.replace("|", r"\|") if i % 2 else _escape_marks(part) for i, part in enumerate(parts)
    )


def html_engine(*packages: str) -> jinja2.Environment:
    """The engine for HTML templates; they are looked for in these packages, in this order."""
    return _engine(packages, autoescape=True)


def markdown_engine(package: str) -> jinja2.Environment:
    """The engine for Markdown templates; all but Markup is `escape`."""
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
    """On one line; spaces at the ends stay, as they may separate the text from its neighbours."""
    return _SPACES.sub(" ", text)
