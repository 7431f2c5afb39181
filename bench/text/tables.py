"""Pages of sections with tables, as Markdown and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from modescope.bench.text.markup import prose

UNKNOWN = "–"

NUMBER = re.compile(rf"[-+]?\d[\d,]*(\.\d+)? ?%?|{UNKNOWN}")
"""Cells of a right-aligned column: numbers and shares, or unknown."""


@dataclass(frozen=True)
class Section:
    """A table, and what to know to read it."""

    title: str
    note: str  # may be empty
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(title: str, head: Sequence[str], sections: Sequence[Section]) -> str:
    """The page as Markdown; `head` becomes a list."""
    parts = [f"# {title}", "\n".join(f"- {line}" for line in head)]
    for each in sections:
        parts += [f"## {each.title}", each.note, markdown(each.headers, each.rows)]
    return "\n\n".join(filter(None, parts)) + "\n"


def plain_section(section: Section) -> str:
    """A section in plain text."""
    lead = "\n".join(filter(None, (section.title, section.note)))
    return f"{lead}\n\n{plain(section.headers, section.rows)}"


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with numbers right-aligned; cells are prose (`bench.text.markup`)."""
    ruler = ["--:" if right else "---" for right in _numeric(headers, rows)]
    cells = (list(map(prose, line)) for line in (headers, ruler, *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def seconds(value: float) -> str:
    """`31.4 µs`, `3.21 ms`, `1.25 s`: three digits."""
    scales = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
    scale, unit = next((each for each in scales if abs(value) >= 0.9995 * each[0]), scales[0])
    return f"{value / scale:.3g} {unit}"


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text, in columns."""
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
