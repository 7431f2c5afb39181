"""Text for readers: tables in Markdown and plain text, escaping, and pages from templates."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup

UNKNOWN = "–"
"""What a cell shows for an unknown value."""

NUMBER = re.compile(rf"[-+]?\d[\d,]*(\.\d+)? ?%?|{UNKNOWN}")
"""A column is right-aligned if this matches all its cells: numbers, shares or UNKNOWN."""


_SPECIAL = re.compile(r"[|`*\\]|~(?=~)|(?<=~)~|_(?=_)|(?<=_)_|\](?=[(\[])|^\[")
"""Characters that have a meaning in Markdown within a line; an underscore in a word has none."""

_SPACES = re.compile(r"\s+")
_CODE = re.compile(r"(`[^`]*`)")


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table with numbers right-aligned; each cell goes through `prose`."""
    ruler = ["--:" if right else "---" for right in _numeric(headers, rows)]
    cells = (list(map(prose, line)) for line in (headers, ruler, *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def seconds(value: float) -> str:
    """Formats a time `value` in seconds with three digits: `31.4 µs`, `3.21 ms`, `1.25 s`."""
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    scale, unit = next((pair for pair in scales if abs(value) >= 0.9995 * pair[0]), scales[0])
    return f"{value / scale:.3g} {unit}"


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as plain text with aligned columns."""
    columns = zip(headers, *rows, strict=True)
    padded = [
        [cell.rjust(width) if right else cell.ljust(width) for cell in column]
        for column, right in zip(columns, _numeric(headers, rows), strict=True)
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _numeric(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    columns = list(zip(headers, *rows, strict=True))
    return [all(NUMBER.fullmatch(cell) for cell in column[1:]) for column in columns]


def escape(text: str) -> str:
    """Returns `text` on one line, escaped so that Markdown shows it unchanged."""
    return _escape_marks(_line(text))


def prose(text: str) -> str:
    """Escapes like `escape`, but in code (backticks) only `|`, which separates a table's cells."""
    parts = _CODE.split(_line(text))
    return "".join(
        part.replace("|", r"\|") if i % 2 else _escape_marks(part) for i, part in enumerate(parts)
    )


def html_engine(*packages: str) -> jinja2.Environment:
    """Returns Jinja's environment for HTML templates, searched in `packages` in this order."""
    return _engine(packages, autoescape=True)


def markdown_engine(package: str) -> jinja2.Environment:
    """Returns Jinja's environment for the Markdown templates of `package`.

    It applies `escape` to every value that is not Markup.
    """
    return _engine(
        [package],
        autoescape=False,
        finalize=lambda value: value if isinstance(value, Markup) else escape(str(value)),
    )


def _engine(packages: Sequence[str], **options: Any) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in packages]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **options,
    )  # fmt: skip


def _escape_marks(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", html.escape(text, quote=False))


def _line(text: str) -> str:
    """Returns `text` on one line. A space at either end stays, to separate `text` from others."""
    return _SPACES.sub(" ", text)
